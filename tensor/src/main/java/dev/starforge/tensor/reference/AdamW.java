package dev.starforge.tensor.reference;

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
    static void step(Plain.AdamW op, View[] in) {
        if (!Double.isFinite(in[4].at(0))) {
            return;
        }
        View p = in[0];
        double clip = Math.min(1, op.maxNorm() / (in[4].at(0) + 1e-6));
        double lr = in[5].at(0);
        double correct1 = in[5].at(1);
        double correct2 = in[5].at(2);
        for (long i = 0; i < p.size; i++) {
            double g = in[3].at(i) * clip;
            double m = op.beta1() * in[1].at(i) + (1 - op.beta1()) * g;
            double v = op.beta2() * in[2].at(i) + (1 - op.beta2()) * g * g;
            double update = m / correct1 / (Math.sqrt(v / correct2) + op.eps());
            p.set(i, p.at(i) * (1 - lr * op.weightDecay()) - lr * update);
            in[1].set(i, m);
            in[2].set(i, v);
        }
    }
}
