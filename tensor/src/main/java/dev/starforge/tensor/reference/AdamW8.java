package dev.starforge.tensor.reference;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.DynamicMap;
import dev.starforge.tensor.op.Operands.AdamW8Inputs;
import dev.starforge.tensor.op.Training;

/** In float32, since this operation is defined to the bit. */
final class AdamW8 {
    private static final int BLOCK = Training.AdamW8.BLOCK;

    private AdamW8() {}

    /** (parameter, m quants, v quants, scales, gradient, norm, rate). */
    static void step(Training.AdamW8 op, AdamW8Inputs<View> in) {
        if (!Double.isFinite(in.norm().at(0))) {
            return;
        }
        long blocks = Training.AdamW8.blocks(Shape.of(in.parameter().size));
        float ratio = (float) op.maxNorm() / ((float) in.norm().at(0) + 1e-6f);
        float clip = ratio >= 1 ? 1 : ratio;
        float[] m = new float[BLOCK];
        float[] v = new float[BLOCK];
        for (long block = 0; block < blocks; block++) {
            long from = block * BLOCK;
            int count = (int) Math.min(BLOCK, in.parameter().size - from);
            float largest1 = 0;
            float largest2 = 0;
            for (int i = 0; i < count; i++) {
                float p = (float) in.parameter().at(from + i);
                float g = (float) in.gradient().at(from + i) * clip;
                m[i] = DynamicMap.SIGNED.value(code(in.m(), from + i))
                        * (float) in.scales().at(block);
                v[i] = DynamicMap.UNSIGNED.value(code(in.v(), from + i))
                        * (float) in.scales().at(blocks + block);
                m[i] = m[i] + (float) (1 - op.beta1()) * (g - m[i]);
                v[i] = v[i] + (float) (1 - op.beta2()) * (g * g - v[i]);
                float root = (float) Math.sqrt(v[i] / (float) in.rate().at(2));
                float update = m[i] / (float) in.rate().at(1) / (root + (float) op.eps());
                in.parameter().set(from + i, p - (float) in.rate().at(0) * ((float) op.weightDecay() * p + update));
                largest1 = Math.max(largest1, Math.abs(m[i]));
                largest2 = Math.max(largest2, Math.abs(v[i]));
            }
            in.scales().set(block, largest1);
            in.scales().set(blocks + block, largest2);
            for (int i = 0; i < count; i++) {
                setCode(in.m(), from + i, DynamicMap.SIGNED.nearest(largest1 == 0 ? 0 : m[i] / largest1));
                setCode(in.v(), from + i, DynamicMap.UNSIGNED.nearest(largest2 == 0 ? 0 : v[i] / largest2));
            }
        }
    }

    private static int code(View quants, long i) {
        return quants.index(i / 4) >>> 8 * (int) (i % 4) & 0xff;
    }

    private static void setCode(View quants, long i, int code) {
        int shift = 8 * (int) (i % 4);
        quants.setIndex(i / 4, quants.index(i / 4) & ~(0xff << shift) | code << shift);
    }
}
