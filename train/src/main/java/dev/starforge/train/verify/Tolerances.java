package dev.starforge.train.verify;

import dev.starforge.tensor.device.Device;

/**
 * What counts as equal to another implementation: logits to 1e-4 of their range for the reference, which sums in double and
 * differs by the rounding of the other side, and 2e-3 for float32 kernels; losses to 1e-4, gradients to 1e-3 of their norm.
 * Measured errors are a hundred times smaller; the margin is for larger models than the golden ones.
 *
 * @param logits largest error of a logit, as a share of the logits' range
 * @param loss largest relative error of a loss
 * @param gradient largest error of a gradient tensor, as a share of its norm
 */
public record Tolerances(double logits, double loss, double gradient) {
    public static Tolerances of(Device device) {
        return new Tolerances(device.name().equals("reference") ? 1e-4 : 2e-3, 1e-4, 1e-3);
    }
}
