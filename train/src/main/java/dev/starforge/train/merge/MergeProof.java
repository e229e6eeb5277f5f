package dev.starforge.train.merge;

import dev.starforge.model.Quantization;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.train.verify.Logits;
import java.nio.file.Path;

/**
 * Verifies that a merged model equals its base with the adapter, by the logits of all three on the same tokens, read
 * back from the files. Merged and adapted model must agree ({@link LogitAgreement}), be much closer to each other than
 * to the base, and differ from the base.
 *
 * @param range of the adapted model's logits
 * @param error largest error between merged and adapted, over the tokens that must agree
 * @param change largest difference between adapted and base
 * @param bound largest permitted error, as a share of the range
 * @param tokens number of compared tokens
 * @param agreeing number of tokens whose logits are all within the bound
 */
public record MergeProof(double range, double error, double change, double bound, int tokens, int agreeing) {
    private static final double NEARER = 0.25;

    public boolean holds() {
        return Double.isFinite(error) && change > 0 && error <= allowed();
    }

    /** The largest permitted error: the bound of the file's types, and a share of what the adapter changes. */
    public double allowed() {
        return Math.min(bound * range, NEARER * change);
    }

    /** Describes the result. */
    public String verdict() {
        if (change == 0) {
            return "the adapter changes nothing: merged equals base";
        }
        return holds()
                ? "merged equals base + adapter"
                : "merged is not base + adapter: the largest difference is " + error + " on logits of range " + range
                        + ", allowed " + allowed();
    }

    /** Computes in float32 on a device, with the base quantized as {@code onto}. */
    static MergeProof of(Path base, Path adapter, Quantization onto, Path merged, Device device) {
        float[] plain;
        float[] adapted;
        try (ModelFiles files = ModelFiles.open(base).quantized(onto)) {
            try (Scope weights = new Scope(device)) {
                plain = LogitAgreement.logits(files.load(weights, Precision.FLOAT32), device);
            }
            try (Scope weights = new Scope(device);
                    LoraAdapter lora = LoraAdapter.open(adapter, weights)) {
                adapted = LogitAgreement.logits(files.load(weights, Precision.FLOAT32, lora), device);
            }
        }
        LogitAgreement agreement = LogitAgreement.of(adapted, merged, device);
        return new MergeProof(
                agreement.range(),
                agreement.error(),
                Logits.maxAbsError(adapted, plain),
                agreement.bound(),
                agreement.tokens(),
                agreement.within());
    }
}
