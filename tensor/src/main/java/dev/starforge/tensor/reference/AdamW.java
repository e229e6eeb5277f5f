package dev.starforge.tensor.reference;

import dev.starforge.tensor.op.Operands.AdamWInputs;
import dev.starforge.tensor.op.Plain;

final class AdamW {
    private AdamW() {}

    static void norm(View[] in, View y) {
        double sum = 0;
        for (View x : in) {
            for (long i = 0; i < x.size; i++) {
                sum += x.at(i) * x.at(i);
            }
        }
        y.set(0, Math.sqrt(sum));
    }

    /** (parameter, m, v, gradient, norm, rate). */
    static void step(Plain.AdamW op, AdamWInputs<View> in) {
        if (!Double.isFinite(in.norm().at(0))) {
            return;
        }
        View p = in.parameter();
        double clip = Math.min(1, op.maxNorm() / (in.norm().at(0) + 1e-6));
        double lr = in.rate().at(0);
        double correct1 = in.rate().at(1);
        double correct2 = in.rate().at(2);
        for (long i = 0; i < p.size; i++) {
            double g = in.gradient().at(i) * clip;
            double m = op.beta1() * in.m().at(i) + (1 - op.beta1()) * g;
            double v = op.beta2() * in.v().at(i) + (1 - op.beta2()) * g * g;
            double update = m / correct1 / (Math.sqrt(v / correct2) + op.eps());
            p.set(i, p.at(i) * (1 - lr * op.weightDecay()) - lr * update);
            in.m().set(i, m);
            in.v().set(i, v);
        }
    }
}
