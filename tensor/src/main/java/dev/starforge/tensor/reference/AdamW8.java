package dev.starforge.tensor.reference;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.DynamicMap;
import dev.starforge.tensor.op.Training;

/** In float32, since this operation is defined to the bit. */
final class AdamW8 {
    private static final int BLOCK = Training.AdamW8.BLOCK;

    private AdamW8() {}

    /** (parameter, m codes, v codes, scales, gradient, norm, rate). */
    static void step(Training.AdamW8 op, View[] in) {
        if (!Double.isFinite(in[5].at(0))) {
            return;
        }
        long blocks = Training.AdamW8.blocks(Shape.of(in[0].size));
        float ratio = (float) op.maxNorm() / ((float) in[5].at(0) + 1e-6f);
        float clip = ratio >= 1 ? 1 : ratio;
        float[] m = new float[BLOCK];
        float[] v = new float[BLOCK];
        for (long block = 0; block < blocks; block++) {
            long from = block * BLOCK;
            int count = (int) Math.min(BLOCK, in[0].size - from);
            float largest1 = 0;
            float largest2 = 0;
            for (int i = 0; i < count; i++) {
                float p = (float) in[0].at(from + i);
                float g = (float) in[4].at(from + i) * clip;
                m[i] = DynamicMap.SIGNED.value(code(in[1], from + i)) * (float) in[3].at(block);
                v[i] = DynamicMap.UNSIGNED.value(code(in[2], from + i)) * (float) in[3].at(blocks + block);
                m[i] = m[i] + (float) (1 - op.beta1()) * (g - m[i]);
                v[i] = v[i] + (float) (1 - op.beta2()) * (g * g - v[i]);
                float root = (float) Math.sqrt(v[i] / (float) in[6].at(2));
                float update = m[i] / (float) in[6].at(1) / (root + (float) op.eps());
                in[0].set(from + i, p - (float) in[6].at(0) * ((float) op.weightDecay() * p + update));
                largest1 = Math.max(largest1, Math.abs(m[i]));
                largest2 = Math.max(largest2, Math.abs(v[i]));
            }
            in[3].set(block, largest1);
            in[3].set(blocks + block, largest2);
            for (int i = 0; i < count; i++) {
                setCode(in[1], from + i, DynamicMap.SIGNED.nearest(largest1 == 0 ? 0 : m[i] / largest1));
                setCode(in[2], from + i, DynamicMap.UNSIGNED.nearest(largest2 == 0 ? 0 : v[i] / largest2));
            }
        }
    }

    private static int code(View codes, long i) {
        return codes.index(i / 4) >>> 8 * (int) (i % 4) & 0xff;
    }

    private static void setCode(View codes, long i, int code) {
        int shift = 8 * (int) (i % 4);
        codes.setIndex(i / 4, codes.index(i / 4) & ~(0xff << shift) | code << shift);
    }
}
