package dev.starforge.train.merge;

import dev.starforge.model.Batches;
import dev.starforge.model.KvCache;
import dev.starforge.model.LoraAdapter;
import dev.starforge.model.Model;
import dev.starforge.model.ModelFiles;
import dev.starforge.model.Quantization;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.Fallback;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.train.TrainException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Shows that a merged model is its base with the adapter: the logits of all three on the same tokens, as read back from the
 * files. They must agree to within a share of the logits' range, be nearer to the adapted model than to the base by far, and
 * differ from the base at all. A mixture of experts whose weights were rounded may choose another expert for a token, which
 * no bound covers: there half of the tokens must agree, and the others are counted.
 *
 * @param range of the adapted model's logits
 * @param error largest difference between merged and adapted, over the tokens that must agree
 * @param change largest difference between adapted and base
 * @param bound largest error allowed, as a share of the range
 * @param tokens that were compared
 * @param agreeing tokens whose logits are all within the bound
 */
public record MergeProof(double range, double error, double change, double bound, int tokens, int agreeing) {
    static final int SEQUENCES = 4;
    static final int LENGTH = 48;
    private static final double NEARER = 0.25;
    static final double EXACT = 2e-3;

    public boolean holds() {
        return Double.isFinite(error) && error <= bound * range && change > 0 && error <= NEARER * change;
    }

    /** What is wrong, in words. */
    public String verdict() {
        if (change == 0) {
            return "the adapter changes nothing: merged equals base";
        }
        return holds()
                ? "merged equals base + adapter"
                : "merged is not base + adapter: the largest difference is " + error + " on logits of range " + range
                        + ", allowed " + Math.min(bound * range, NEARER * change);
    }

    /**
     * The largest error allowed, as a share of the logits' range, for how a file keeps its numbers: float32 rounds a sum
     * twice, 16 bits round every merged weight to 2^-12 or 2^-9 of itself, and quantized formats to a few percent.
     */
    static double bound(ModelFiles merged) {
        double bound = EXACT;
        for (ModelFiles.Stored tensor : merged.tensors()) {
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

    /** Computes in float32 on a device, with the numbers of the base rounded as {@code onto} says. */
    public static MergeProof of(Path base, Path adapter, Quantization onto, Path merged, Device device) {
        float[] plain;
        float[] adapted;
        float[] ours;
        double bound;
        boolean mixture;
        try (ModelFiles files = ModelFiles.open(base).asBase(onto)) {
            try (Scope weights = new Scope(device)) {
                plain = logits(files.load(weights, Precision.FLOAT32), device);
            }
            try (Scope weights = new Scope(device);
                    LoraAdapter updates = LoraAdapter.open(adapter, weights)) {
                adapted = logits(files.load(weights, Precision.FLOAT32, updates), device);
            }
        }
        try (ModelFiles files = ModelFiles.open(merged);
                Scope weights = new Scope(device)) {
            ours = logits(files.load(weights, Precision.FLOAT32), device);
            bound = bound(files);
            mixture = bound > EXACT
                    && files.tensors().stream()
                            .anyMatch(tensor -> tensor.name().matches(".*(\\.experts\\.|_exps\\.).*"));
        }
        if (ours.length != adapted.length) {
            throw new TrainException(merged + ": gives " + ours.length + " logits, expected " + adapted.length);
        }
        double least = Double.POSITIVE_INFINITY;
        double most = Double.NEGATIVE_INFINITY;
        for (float logit : adapted) {
            least = Math.min(least, logit);
            most = Math.max(most, logit);
        }
        double[] errors = new double[SEQUENCES * LENGTH];
        int width = ours.length / errors.length;
        int agreeing = 0;
        for (int row = 0; row < errors.length; row++) {
            errors[row] = difference(ours, adapted, row * width, (row + 1) * width);
            agreeing += errors[row] <= bound * (most - least) ? 1 : 0;
        }
        Arrays.sort(errors);
        double error = errors[mixture ? errors.length / 2 : errors.length - 1];
        double change = difference(adapted, plain, 0, plain.length);
        return new MergeProof(most - least, error, change, bound, errors.length, agreeing);
    }

    static double difference(float[] a, float[] b, int from, int to) {
        double largest = 0;
        for (int i = from; i < to; i++) {
            double difference = Math.abs((double) a[i] - b[i]);
            if (Double.isNaN(difference)) {
                return Double.POSITIVE_INFINITY;
            }
            largest = Math.max(largest, difference);
        }
        return largest;
    }

    static float[] logits(Model model, Device device) {
        List<int[]> texts = IntStream.range(0, SEQUENCES)
                .mapToObj(s -> IntStream.range(0, LENGTH)
                        .map(i -> (int) (Philox.uniform(1, s, i) * model.facts().vocabulary()))
                        .toArray())
                .toList();
        try (Scope step = new Scope(device)) {
            var ops = device.ops(step, Precision.FLOAT32, Fallback.QUIET);
            return device.floats(model.forward(ops, Batches.packed(model, step, texts), KvCache.NONE));
        }
    }
}
