package dev.starforge.tensor.reference;

import dev.starforge.tensor.Philox;
import dev.starforge.tensor.op.Operands.NoiseInputs;
import dev.starforge.tensor.op.Training;

/** In float32, since these operations are defined to the bit. */
final class Dropout {
    private Dropout() {}

    /** The random number of an element, in [0, 1): samples, positions and key are inputs 1 to 3 of both operations. */
    private static float uniform(NoiseInputs<View> in, int site, long row, int channel) {
        int[] words = Philox.words(
                channel / 4,
                in.positions().index(row),
                in.samples().index(row),
                site,
                in.key().index(0),
                in.key().index(1));
        return (words[channel % 4] >>> 8) * 0x1p-24f;
    }

    static void run(Training.Dropout op, NoiseInputs<View> in, View y) {
        for (long i = 0; i < y.size; i++) {
            boolean kept = uniform(in, op.site(), i / y.last, (int) (i % y.last)) >= op.rate();
            y.set(i, kept ? (float) in.x().at(i) * op.scale() : 0);
        }
    }

    static void noise(Training.Noise op, NoiseInputs<View> in, View magnitudes, View y) {
        for (long i = 0; i < y.size; i++) {
            float u = 2 * uniform(in, op.site(), i / y.last, (int) (i % y.last)) - 1;
            float magnitude = (float) magnitudes.at(i / y.last);
            y.set(i, (float) in.x().at(i) + magnitude * u);
        }
    }
}
