package dev.starforge.train.verify;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Device;

/**
 * Error bounds against other implementations. In float32: logits 1e-4 of their range on the reference and the CPU and
 * 2e-3 on a GPU, losses 1e-4, gradients 1e-3 of their norm. Measured errors are a hundred times smaller; the margin is
 * for models larger than the golden ones. In 16 bits every activation is rounded to 8 or 11 bits, and logits and losses
 * are within 2e-2. Results of discrete choices are not compared in 16 bits, since two tokens or experts may be closer
 * than that: greedy tokens, and logits of an adapter after training. Logits are compared with the experts that float32
 * selects; 16 bits may change one in twenty. Rerouted tokens change gradients, which are within 0.25 of their norm.
 *
 * @param logits largest error of a logit, as a share of the logits' range
 * @param loss largest relative error of a loss
 * @param gradient largest error of a gradient tensor, as a share of its norm
 * @param choices whether greedy tokens and training results that depend on routing must be equal
 * @param rerouted largest share of tokens that may use other experts
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
