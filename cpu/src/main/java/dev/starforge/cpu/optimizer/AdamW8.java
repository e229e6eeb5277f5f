package dev.starforge.cpu.optimizer;

import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.DynamicMap;
import dev.starforge.tensor.op.Operands.AdamW8Inputs;
import dev.starforge.tensor.op.Training;

/**
 * The optimizer step with moments of 8 bits, block by block. Scalar code: looking numbers up is what costs, and the
 * operation is defined to the bit, so nothing may be fused.
 */
public final class AdamW8 {
    private static final int BLOCK = Training.AdamW8.BLOCK;
    private static final int STRIP = Scratch.STRIP;
    private static final int BLOCKS_IN_CHUNK = 64;

    private AdamW8() {}

    /** (parameter, m quants, v quants, scales, gradient, norm, rate). */
    public static void step(Workers workers, Training.AdamW8 op, AdamW8Inputs<View> in) {
        if (!Float.isFinite(in.norm().at(0))) {
            return;
        }
        long blocks = Training.AdamW8.blocks(Shape.of(in.parameter().size));
        float ratio = (float) op.maxNorm() / (in.norm().at(0) + 1e-6f);
        float clip = ratio >= 1 ? 1 : ratio;
        workers.run(Workers.count(blocks, BLOCKS_IN_CHUNK), (chunk, s, at) -> {
            long end = Math.min(blocks, (chunk + 1) * BLOCKS_IN_CHUNK);
            for (long block = chunk * BLOCKS_IN_CHUNK; block < end; block++) {
                step(op, in, blocks, block, clip, s, at);
            }
        });
    }

    private static void step(
            Training.AdamW8 op, AdamW8Inputs<View> in, long blocks, long block, float clip, float[] s, int at) {
        long from = block * BLOCK;
        int count = (int) Math.min(BLOCK, in.parameter().size - from);
        float scale1 = in.scales().at(block);
        float scale2 = in.scales().at(blocks + block);
        float toward1 = (float) (1 - op.beta1());
        float toward2 = (float) (1 - op.beta2());
        float eps = (float) op.eps();
        float decay = (float) op.weightDecay();
        float lr = in.rate().at(0);
        float correct1 = in.rate().at(1);
        float correct2 = in.rate().at(2);
        int m = at + STRIP;
        int v = at + 2 * STRIP;
        in.parameter().load(from, count, s, at);
        in.gradient().load(from, count, s, at + 3 * STRIP);
        float largest1 = 0;
        float largest2 = 0;
        for (int i = 0; i < count; i++) {
            int shift = 8 * (i % 4);
            float g = s[at + 3 * STRIP + i] * clip;
            float m0 = DynamicMap.SIGNED.value(in.m().index((from + i) / 4) >>> shift & 0xff) * scale1;
            float v0 = DynamicMap.UNSIGNED.value(in.v().index((from + i) / 4) >>> shift & 0xff) * scale2;
            float m1 = m0 + toward1 * (g - m0);
            float v1 = v0 + toward2 * (g * g - v0);
            float update = m1 / correct1 / ((float) Math.sqrt(v1 / correct2) + eps);
            s[at + i] -= lr * (decay * s[at + i] + update);
            s[m + i] = m1;
            s[v + i] = v1;
            largest1 = Math.max(largest1, Math.abs(m1));
            largest2 = Math.max(largest2, Math.abs(v1));
        }
        in.parameter().store(from, count, s, at);
        in.scales().set(block, largest1);
        in.scales().set(blocks + block, largest2);
        encode(DynamicMap.SIGNED, in.m(), from, count, s, m, largest1);
        encode(DynamicMap.UNSIGNED, in.v(), from, count, s, v, largest2);
    }

    /** Quantizes a whole block; values past the last element are unchanged. */
    private static void encode(DynamicMap map, View quants, long from, int count, float[] s, int at, float largest) {
        for (int i = 0; i < count; i += 4) {
            int four = quants.index((from + i) / 4);
            for (int k = 0; k < 4 && i + k < count; k++) {
                int code = map.nearest(largest == 0 ? 0 : s[at + i + k] / largest);
                four = four & ~(0xff << 8 * k) | code << 8 * k;
            }
            quants.setIndex((from + i) / 4, four);
        }
    }
}
