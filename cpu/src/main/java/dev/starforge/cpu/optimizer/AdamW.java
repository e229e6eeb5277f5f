package dev.starforge.cpu.optimizer;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.tensor.op.Operands.AdamWInputs;
import dev.starforge.tensor.op.Plain;
import java.util.List;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * The optimizer step and the norm it clips by. Moments move as m + (1 - beta)(g - m): beta itself, rounded to float32,
 * would bias v by 1e-5. The decay is subtracted together with the update, because 1 - lr * decay has few digits of decay
 * left in float32.
 */
public final class AdamW {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final int STRIP = Scratch.STRIP;
    private static final int NORM_CHUNK = 1 << 16;

    private AdamW() {}

    public static void norm(Workers workers, View[] in, View y) {
        double sum = 0;
        for (View x : in) {
            double[] partial = new double[Math.toIntExact(Workers.count(x.size, NORM_CHUNK))];
            workers.run(partial.length, (chunk, s, at) -> {
                double chunkSum = 0;
                long end = Math.min(x.size, (chunk + 1) * NORM_CHUNK);
                for (long from = chunk * NORM_CHUNK; from < end; from += STRIP) {
                    int count = (int) Math.min(STRIP, end - from);
                    x.load(from, count, s, at);
                    chunkSum += squares(s, at, count);
                }
                partial[(int) chunk] = chunkSum;
            });
            for (double chunkSum : partial) {
                sum += chunkSum;
            }
        }
        y.set(0, (float) Math.sqrt(sum));
    }

    private static double squares(float[] s, int x, int n) {
        double c0 = 0;
        double c1 = 0;
        double c2 = 0;
        double c3 = 0;
        int whole = n & -4;
        for (int i = x; i < x + whole; i += 4) {
            c0 += (double) s[i] * s[i];
            c1 += (double) s[i + 1] * s[i + 1];
            c2 += (double) s[i + 2] * s[i + 2];
            c3 += (double) s[i + 3] * s[i + 3];
        }
        for (int i = x + whole; i < x + n; i++) {
            c0 += (double) s[i] * s[i];
        }
        return c0 + c1 + (c2 + c3);
    }

    /** (parameter, m, v, gradient, norm, rate). */
    public static void step(Workers workers, Plain.AdamW op, AdamWInputs<View> inputs) {
        List<View> in = List.of(inputs.parameter(), inputs.m(), inputs.v(), inputs.gradient());
        if (!Float.isFinite(inputs.norm().at(0))) {
            return;
        }
        float clip = (float) Math.min(1, op.maxNorm() / (inputs.norm().at(0) + 1e-6));
        double rate = inputs.rate().at(0);
        Coefficients c = new Coefficients(
                clip,
                (float) (1 - op.beta1()),
                (float) (1 - op.beta2()),
                (float) (rate / inputs.rate().at(1)),
                (float) (1 / Math.sqrt(inputs.rate().at(2))),
                (float) op.eps(),
                (float) (rate * op.weightDecay()));
        workers.strips(inputs.parameter().size, (from, count, s, at) -> {
            for (int i = 0; i < 4; i++) {
                in.get(i).load(from, count, s, at + i * STRIP);
            }
            step(s, at, count, c);
            for (int i = 0; i < 3; i++) {
                in.get(i).store(from, count, s, at + i * STRIP);
            }
        });
    }

    /** What a step multiplies by, in float32; the bias corrections are part of stepSize and root. */
    private record Coefficients(
            float clip, float oneMinusBeta1, float oneMinusBeta2, float stepSize, float root, float eps, float decay) {}

    /** Strips of parameter, m, v and gradient, one after the other. */
    private static void step(float[] s, int at, int n, Coefficients c) {
        FloatVector toward1 = FloatVector.broadcast(SPECIES, c.oneMinusBeta1);
        FloatVector toward2 = FloatVector.broadcast(SPECIES, c.oneMinusBeta2);
        FloatVector shrink = FloatVector.broadcast(SPECIES, c.decay);
        float clip = c.clip;
        float stepSize = c.stepSize;
        float root = c.root;
        float eps = c.eps;
        for (int i = at; i < at + n; i += W) {
            FloatVector p = FloatVector.fromArray(SPECIES, s, i);
            FloatVector m = FloatVector.fromArray(SPECIES, s, i + STRIP);
            FloatVector v = FloatVector.fromArray(SPECIES, s, i + 2 * STRIP);
            FloatVector g = FloatVector.fromArray(SPECIES, s, i + 3 * STRIP).mul(clip);
            m = g.sub(m).fma(toward1, m);
            v = g.mul(g).sub(v).fma(toward2, v);
            FloatVector update = m.mul(stepSize).div(v.sqrt().mul(root).add(eps));
            p.sub(p.fma(shrink, update)).intoArray(s, i);
            m.intoArray(s, i + STRIP);
            v.intoArray(s, i + 2 * STRIP);
        }
    }
}
