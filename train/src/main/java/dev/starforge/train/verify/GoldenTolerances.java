package dev.starforge.train.verify;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Device;

/**
 * What counts as equal to another implementation in float32: logits to 1e-4 of their range on the reference and the CPU, and
 * 2e-3 on a GPU; losses to 1e-4, gradients to 1e-3 of their norm. Measured errors are a hundred times smaller; the margin is
 * for larger models than the golden ones. A run in 16 bits rounds every activation to 8 or 11 bits: logits and losses are
 * within 2e-2. What follows from a choice is not compared, since two tokens or two experts may be closer than that: greedy
 * text, and logits of an adapter after training. Logits are compared with the experts that float32 chooses, of which 16 bits
 * may change one in twenty; what a token that goes elsewhere takes with it leaves gradients within 0.25 of their norm.
 *
 * @param logits largest error of a logit, as a share of the logits' range
 * @param loss largest relative error of a loss
 * @param gradient largest error of a gradient tensor, as a share of its norm
 * @param choices whether greedy text, and what was learned by way of experts, must be the same
 * @param rerouted largest share of tokens that may go to other experts
 */
public record GoldenTolerances(double logits, double loss, double gradient, boolean choices, double rerouted) {
    public static GoldenTolerances of(Device device, Precision precision) {
        if (precision.compute() != DType.F32) {
            return new GoldenTolerances(2e-2, 2e-2, 0.25, false, 0.05);
        }
        boolean host = device.name().equals("reference") || device.name().equals("cpu");
        return new GoldenTolerances(host ? 1e-4 : 2e-3, 1e-4, 1e-3, true, 0);
    }
}
