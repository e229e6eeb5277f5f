package dev.starforge.cpu.elementwise;

import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.tensor.op.Operands.NoiseInputs;
import dev.starforge.tensor.op.Training;

/**
 * Dropout and noise whose random numbers are a function of sample, position, site and channel. Rows go by pieces of a
 * strip; four channels share one counter, so a strip of random numbers costs a quarter as many Philox rounds.
 */
public final class Dropout {
    private static final int STRIP = Scratch.STRIP;
    private static final int ROUNDS = 10;
    private static final long LOW = 0xffffffffL;
    private static final long M0 = 0xD2511F53L;
    private static final long M1 = 0xCD9E8D57L;
    private static final int W0 = 0x9E3779B9;
    private static final int W1 = 0xBB67AE85;

    private Dropout() {}

    /** (x, samples, positions, key). */
    public static void run(Workers workers, Training.Dropout op, NoiseInputs<View> in, View y) {
        float rate = op.rate();
        float scale = op.scale();
        workers.rows(y.rows, y.last, (row, s, at) -> {
            for (int from = 0; from < y.last; from += STRIP) {
                int count = (int) Math.min(STRIP, y.last - from);
                uniform(in, op.site(), row, from, count, s, at + STRIP);
                in.x().load(row * y.last + from, count, s, at);
                for (int i = 0; i < count; i++) {
                    s[at + i] = s[at + STRIP + i] >= rate ? s[at + i] * scale : 0;
                }
                y.store(row * y.last + from, count, s, at);
            }
        });
    }

    public static void noise(Workers workers, Training.Noise op, NoiseInputs<View> in, View magnitudes, View y) {
        workers.rows(y.rows, y.last, (row, s, at) -> {
            float magnitude = magnitudes.at(row);
            for (int from = 0; from < y.last; from += STRIP) {
                int count = (int) Math.min(STRIP, y.last - from);
                uniform(in, op.site(), row, from, count, s, at + STRIP);
                in.x().load(row * y.last + from, count, s, at);
                for (int i = 0; i < count; i++) {
                    s[at + i] += magnitude * (2 * s[at + STRIP + i] - 1);
                }
                y.store(row * y.last + from, count, s, at);
            }
        });
    }

    /** Random numbers for channels {@code from} on, a multiple of 4, of one row; up to three more than asked are written. */
    private static void uniform(NoiseInputs<View> in, int site, long row, int from, int count, float[] s, int at) {
        int sample = in.samples().index(row);
        int position = in.positions().index(row);
        int key0 = in.key().index(0);
        int key1 = in.key().index(1);
        for (int i = 0; i < count; i += 4) {
            long c0 = (from + i) / 4;
            long c1 = position & LOW;
            long c2 = sample & LOW;
            long c3 = site & LOW;
            int k0 = key0;
            int k1 = key1;
            for (int round = 0; round < ROUNDS; round++) {
                long p0 = M0 * c0;
                long p1 = M1 * c2;
                c0 = (p1 >>> 32 ^ c1 ^ k0) & LOW;
                c1 = p1 & LOW;
                c2 = (p0 >>> 32 ^ c3 ^ k1) & LOW;
                c3 = p0 & LOW;
                k0 += W0;
                k1 += W1;
            }
            s[at + i] = (c0 >>> 8) * 0x1p-24f;
            s[at + i + 1] = (c1 >>> 8) * 0x1p-24f;
            s[at + i + 2] = (c2 >>> 8) * 0x1p-24f;
            s[at + i + 3] = (c3 >>> 8) * 0x1p-24f;
        }
    }
}
