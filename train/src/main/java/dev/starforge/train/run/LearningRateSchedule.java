package dev.starforge.train.run;

import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;

/**
 * The learning rate of every step: a linear rise, then a fall.
 *
 * @param steps all steps of the run
 */
record LearningRateSchedule(Shape shape, double peak, long warmup, long steps) {
    /** How it falls. */
    enum Shape {
        COSINE,
        LINEAR,
        CONSTANT,
        /** Stays at the peak, and falls linearly over the last fifth (Hu et al. 2024). */
        WSD
    }

    static LearningRateSchedule of(RunConfig config, long steps) {
        long warmup = config.get(Keys.WARMUP_STEPS) > 0
                ? config.get(Keys.WARMUP_STEPS)
                : (long) Math.ceil(config.get(Keys.WARMUP_RATIO) * steps);
        Shape shape = Shape.valueOf(config.get(Keys.SCHEDULE).toUpperCase(java.util.Locale.ROOT));
        return new LearningRateSchedule(shape, config.get(Keys.RATE), warmup, steps);
    }

    /** The rate of a step, counted from 0. The first one is above zero, the last is not yet. */
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
