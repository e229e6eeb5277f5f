package dev.starforge.train.run;

import dev.starforge.tensor.NullOps;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;

/**
 * The memory of a run's steps: whether gradient checkpointing is needed, and what to set where a step does not fit.
 *
 * @param memoryBytes what there is; 0 when unknown
 */
record StepMemory(RunConfig config, Trainable trainable, long memoryBytes) {
    private static final double USABLE = 0.9;

    /** With gradient checkpointing as set; {@code auto} turns it off where a step fits without. */
    Trainer trainer(TrainRun.Setup setup) {
        String asked = config.get(Keys.CHECKPOINTING);
        Trainer trainer = trainer(setup, !asked.equals("false"));
        if (!asked.equals("auto")) {
            return trainer;
        }
        NullOps.Plan plan = trainer.plan(config.get(Keys.BATCH), config.get(Keys.CONTEXT), false);
        long needed = plan.totalBytes() + trainer.reservedBytes() + trainable.weightBytes();
        boolean fits = memoryBytes == 0 || needed <= USABLE * memoryBytes;
        setup.events()
                .note("gradient checkpointing is " + (fits ? "off" : "on") + ": without it a step needs "
                        + mebibytes(needed) + (memoryBytes == 0 ? "" : " of " + mebibytes(memoryBytes)));
        if (!fits) {
            return trainer;
        }
        trainer.close();
        return trainer(setup, false);
    }

    private Trainer trainer(TrainRun.Setup setup, boolean checkpointing) {
        return new Trainer(
                trainable.model(),
                trainable.parameters(),
                setup.device(),
                setup.precision(),
                setup.fallback(),
                TrainerSettings.of(config, checkpointing));
    }

    /** What to set, for a person, where one sequence of the context is too much. */
    String whatFits(Trainer trainer) {
        if (memoryBytes == 0) {
            return "set model.context_window lower, or optimization.gradient_checkpointing: true";
        }
        long left = memoryBytes - trainable.weightBytes() - trainer.stateBytes();
        for (int context = config.get(Keys.CONTEXT) / 2; context >= 16; context /= 2) {
            long needed = trainer.plan(1, context, true).totalBytes();
            if (needed <= left) {
                return "model.context_window: " + context + " with gradient_checkpointing: true would, with "
                        + mebibytes(needed) + " beside the weights";
            }
        }
        return "the weights and the optimizer's state leave " + mebibytes(Math.max(0, left)) + " only";
    }

    private static String mebibytes(long bytes) {
        return (bytes >> 20) + " MiB";
    }
}
