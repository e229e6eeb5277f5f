package dev.starforge.train.merge;

import dev.starforge.model.ModelFiles;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.train.TrainException;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Shows that a converted model is the one it was made of: the logits of both on the same tokens, as read back from the files.
 * Where weights were rounded, a mixture of experts may choose another expert for a token: there half of the tokens must agree,
 * as in {@link MergeProof}.
 *
 * @param range of the original's logits
 * @param error largest difference over the tokens that must agree
 * @param bound largest error allowed, as a share of the range
 */
public record ExportProof(double range, double error, double bound) {
    public boolean holds() {
        return Double.isFinite(error) && error <= bound * range;
    }

    /** Computes in float32 on a device. */
    public static ExportProof of(Path original, Path export, Device device) {
        float[] expected = logits(original, device);
        float[] actual = logits(export, device);
        if (expected.length != actual.length) {
            throw new TrainException(export + ": gives " + actual.length + " logits, expected " + expected.length);
        }
        double bound;
        boolean mixture;
        try (ModelFiles files = ModelFiles.open(export)) {
            bound = MergeProof.bound(files);
            mixture = bound > MergeProof.EXACT
                    && files.tensors().stream().anyMatch(tensor -> tensor.name().contains("_exps."));
        }
        double[] errors = new double[MergeProof.SEQUENCES * MergeProof.LENGTH];
        int width = expected.length / errors.length;
        Arrays.setAll(errors, row -> MergeProof.difference(actual, expected, row * width, (row + 1) * width));
        Arrays.sort(errors);
        double least = Double.POSITIVE_INFINITY;
        double most = Double.NEGATIVE_INFINITY;
        for (float logit : expected) {
            least = Math.min(least, logit);
            most = Math.max(most, logit);
        }
        return new ExportProof(most - least, errors[mixture ? errors.length / 2 : errors.length - 1], bound);
    }

    private static float[] logits(Path model, Device device) {
        try (ModelFiles files = ModelFiles.open(model);
                Scope weights = new Scope(device)) {
            return MergeProof.logits(files.load(weights, Precision.FLOAT32), device);
        }
    }
}
