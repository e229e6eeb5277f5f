package dev.starforge.train.run;

import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;

/**
 * Learning rate schedule: linear warmup, then decay.
 *
 * @param steps total steps of the run
 */
record LearningRateSchedule(Shape shape, double peak, long warmup, long steps) {
    /** Shape of the decay. */
    enum Shape {
        COSINE,
        LINEAR,
        CONSTANT,
        /** Warmup-stable-decay: constant, with linear decay over the last fifth (Hu et al. 2024). */
        WSD
    }

    static LearningRateSchedule of(RunConfig config, long steps) {
        long warmup = config.get(Keys.WARMUP_STEPS) > 0
                ? config.get(Keys.WARMUP_STEPS)
                : (long) Math.ceil(config.get(Keys.WARMUP_RATIO) * steps);
        Shape shape = Shape.valueOf(config.get(Keys.SCHEDULE).toUpperCase(java.util.Locale.ROOT));
        return new LearningRateSchedule(shape, config.get(Keys.RATE), warmup, steps);
    }

    /**
     * The learning rate of a step, counted from 0. It is above zero in the first step, and not yet zero in the last.
     */
    double rate(long step) {
        if (step < warmup) {
            return peak * (step + 1) / warmup;
        }
        double done = steps <= warmup ? 1 : Math.min(1, (double) (step - warmup) / (steps - warmup));
        return switch (shape) {
            case COSINE -> peak * 0.5 * (1 + StrictMath.cos(Math.PI * done));
            case LINEAR -> peak * (1 - done);
            case CONSTANT -> peak;
            case WSD -> peak * Math.min(1, 5 * (1 - done));
        };
    }
}
