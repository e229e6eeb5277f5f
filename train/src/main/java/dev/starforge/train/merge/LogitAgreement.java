package dev.starforge.train.merge;

import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.train.TrainException;
import dev.starforge.train.verify.Logits;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Compares the logits of a written model with those of its source on the same random tokens. They must agree within a
 * share of their range. In a mixture-of-experts model, rounded weights may change the expert of a token, which no bound
 * covers; so only half of its tokens must agree.
 *
 * @param range of the expected logits
 * @param error largest error over the tokens that must agree
 * @param bound largest permitted error, as a share of the range
 * @param tokens number of compared tokens
 * @param within number of tokens whose logits are all within the bound
 */
record LogitAgreement(double range, double error, double bound, int tokens, int within) {
    private static final int SEQUENCES = 4;
    private static final int LENGTH = 48;
    private static final double EXACT = 2e-3;

    boolean holds() {
        return Double.isFinite(error) && error <= bound * range;
    }

    /** Loads a written model in float32 and compares its logits. */
    static LogitAgreement of(float[] expected, Path written, Device device) {
        try (ModelFiles files = ModelFiles.open(written);
                Scope weights = new Scope(device)) {
            float[] actual = logits(files.load(weights, Precision.FLOAT32), device);
            if (actual.length != expected.length) {
                throw new TrainException(written + ": gives " + actual.length + " logits, expected " + expected.length);
            }
            double bound = bound(files);
            double range = Logits.range(expected);
            double[] errors = new double[SEQUENCES * LENGTH];
            int width = expected.length / errors.length;
            Arrays.setAll(errors, row -> Logits.maxAbsError(actual, expected, row * width, (row + 1) * width));
            int within = (int) Arrays.stream(errors)
                    .filter(error -> error <= bound * range)
                    .count();
            Arrays.sort(errors);
            boolean mixture = bound > EXACT && hasExperts(files);
            return new LogitAgreement(
                    range, errors[mixture ? errors.length / 2 : errors.length - 1], bound, errors.length, within);
        }
    }

    /**
     * The largest permitted error, as a share of the logits' range, by the types of a file: float32 rounds a sum twice,
     * 16-bit types round every merged weight to 2^-12 or 2^-9 of itself, and quantized types to a few percent.
     */
    private static double bound(ModelFiles written) {
        double bound = EXACT;
        for (ModelFiles.TensorInfo tensor : written.tensors()) {
            bound = Math.max(
                    bound,
                    switch (tensor.dtype()) {
                        case "F32", "F64" -> EXACT;
                        case "F16" -> 5e-3;
                        case "BF16" -> 5e-2;
                        default -> 1e-1;
                    });
        }
        return bound;
    }

    private static boolean hasExperts(ModelFiles files) {
        return files.tensors().stream().anyMatch(tensor -> tensor.name().matches(".*(\\.experts\\.|_exps\\.).*"));
    }

    /** The logits of random sequences, the same for all models with this vocabulary size. */
    static float[] logits(Model model, Device device) {
        List<int[]> sequences = IntStream.range(0, SEQUENCES)
                .mapToObj(s -> IntStream.range(0, LENGTH)
                        .map(i -> (int) (Philox.uniform(1, s, i) * model.info().vocabSize()))
                        .toArray())
                .toList();
        try (Scope step = new Scope(device)) {
            var ops = device.ops(step, Precision.FLOAT32, Fallback.QUIET);
            return device.floats(model.forward(ops, Batches.packed(model, step, sequences), KvCache.NONE));
        }
    }
}
