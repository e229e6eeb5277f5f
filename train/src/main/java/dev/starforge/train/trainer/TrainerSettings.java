package dev.starforge.train.trainer;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Training;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;

/**
 * Settings of {@link Trainer}.
 *
 * @param eightBit whether the optimizer state has 8 bits
 * @param scaled whether the loss is scaled for fp16 gradients
 * @param maxNorm gradient norm above which gradients are clipped
 * @param checkpointing what a block stores for the backward pass
 * @param dropout dropout probability on the inputs of LoRA
 * @param neftune magnitude of NEFTune noise on embeddings
 * @param seed of dropout and noise
 */
public record TrainerSettings(
        boolean eightBit,
        boolean scaled,
        double beta1,
        double beta2,
        double eps,
        double weightDecay,
        double maxNorm,
        Checkpointing checkpointing,
        double dropout,
        double neftune,
        long seed) {
    /** Settings without noise and with a float32 optimizer state. */
    public static TrainerSettings plain(
            double beta1, double beta2, double eps, double weightDecay, double maxNorm, Checkpointing checkpointing) {
        return new TrainerSettings(false, false, beta1, beta2, eps, weightDecay, maxNorm, checkpointing, 0, 0, 0);
    }

    /** Settings of a run. */
    public static TrainerSettings of(RunConfig config, Checkpointing checkpointing) {
        double maxNorm = config.get(Keys.MAX_NORM);
        return new TrainerSettings(
                config.get(Keys.OPTIMIZER).equals("adamw_8bit"),
                config.get(Keys.MIXED).equals("fp16"),
                config.get(Keys.BETAS).get(0),
                config.get(Keys.BETAS).get(1),
                config.get(Keys.EPS),
                config.get(Keys.DECAY),
                maxNorm == 0 ? Double.POSITIVE_INFINITY : maxNorm,
                checkpointing,
                config.get(Keys.LORA) ? config.get(Keys.DROPOUT) : 0,
                config.get(Keys.NEFTUNE),
                config.get(Keys.SEED));
    }

    /** The update operation of a parameter; norms, biases and other vectors do not decay. */
    Op update(Shape parameter) {
        double decay = parameter.rank() < 2 ? 0 : weightDecay;
        return eightBit
                ? new Training.AdamW8(beta1, beta2, eps, decay, maxNorm)
                : new Plain.AdamW(beta1, beta2, eps, decay, maxNorm);
    }
}
