package dev.starforge.train.run;

import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.trainer.Trainer;
import dev.starforge.train.trainer.TrainerSettings;
import dev.starforge.train.weights.TrainableModel;
import java.util.Locale;

/**
 * Plans the memory of a training step: chooses gradient checkpointing, and advises what to set if a step does not fit.
 *
 * @param memoryBytes memory of the device; 0 if unknown
 */
record StepMemory(RunConfig config, TrainableModel trainable, long memoryBytes) {
    private static final double USABLE = 0.9;

    /**
     * Creates the trainer with the configured gradient checkpointing; {@code auto} recomputes as little as memory
     * permits.
     */
    Trainer trainer(TrainRun.Setup setup) {
        Checkpointing checkpointing = config.checkpointing();
        if (config.get(Keys.CHECKPOINTING).equals("auto")) {
            try (Trainer trainer = trainer(setup, Checkpointing.OFF)) {
                checkpointing = least(trainer, setup);
            }
        }
        return trainer(setup, checkpointing);
    }

    private Checkpointing least(Trainer trainer, TrainRun.Setup setup) {
        for (Checkpointing each : Checkpointing.values()) {
            long needed = trainer.plan(config.get(Keys.BATCH), config.get(Keys.CONTEXT), each)
                            .totalBytes()
                    + trainer.reservedBytes()
                    + trainable.weightBytes();
            if (memoryBytes == 0 || needed <= USABLE * memoryBytes || each == Checkpointing.FULL) {
                setup.events()
                        .note("gradient checkpointing is " + each.name().toLowerCase(Locale.ROOT) + ": a step needs "
                                + mebibytes(needed) + (memoryBytes == 0 ? "" : " of " + mebibytes(memoryBytes)));
                return each;
            }
        }
        throw new AssertionError("full checkpointing is the last mode");
    }

    private Trainer trainer(TrainRun.Setup setup, Checkpointing checkpointing) {
        return new Trainer(
                trainable.model(),
                trainable.parameters(),
                setup.device(),
                setup.precision(),
                setup.fallback(),
                TrainerSettings.of(config, checkpointing));
    }

    /** Advice for the user if one sequence does not fit into memory. */
    String advice(Trainer trainer) {
        if (memoryBytes == 0) {
            return "set model.context_window lower, or optimization.gradient_checkpointing: true";
        }
        long left = memoryBytes - trainable.weightBytes() - trainer.stateBytes();
        for (int context = config.get(Keys.CONTEXT) / 2; context >= 16; context /= 2) {
            long needed = trainer.plan(1, context, Checkpointing.FULL).totalBytes();
            if (needed <= left) {
                return "model.context_window: " + context + " with gradient_checkpointing: true would, with "
                        + mebibytes(needed) + " beside the weights";
            }
        }
        return "the weights and the optimizer state leave only " + mebibytes(Math.max(0, left));
    }

    private static String mebibytes(long bytes) {
        return (bytes >> 20) + " MiB";
    }
}
