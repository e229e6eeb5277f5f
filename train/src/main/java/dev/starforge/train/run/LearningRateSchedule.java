package dev.starforge.train.run;

import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.util.Locale;

/**
 * Learning rate schedule: linear warmup, then decay. The decay is a function of its progress, which rises linearly from
 * {@code done} at step {@code from} to 1 at the end. So the end can move during a run ({@link #endingAt}), and the rate does
 * not jump.
 *
 * @param steps total steps of the run
 */
record LearningRateSchedule(Shape shape, double peak, long warmup, long steps, long from, double done) {
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
        Shape shape = Shape.valueOf(config.get(Keys.SCHEDULE).toUpperCase(Locale.ROOT));
        return new LearningRateSchedule(shape, config.get(Keys.RATE), warmup, steps, warmup, 0);
    }

    /** Returns this schedule up to a step, and from there one with another end. A warmup that is not over is planned anew. */
    LearningRateSchedule endingAt(long end, long step, RunConfig config) {
        return step < warmup
                ? of(config, end)
                : new LearningRateSchedule(shape, peak, warmup, end, step, progress(step));
    }

    private double progress(long step) {
        return steps <= from ? 1 : Math.min(1, done + (1 - done) * ((double) (step - from) / (steps - from)));
    }

    /**
     * The learning rate of a step, counted from 0. It is above zero in the first step, and not yet zero in the last.
     */
    double rate(long step) {
        if (step < warmup) {
            return peak * (step + 1) / warmup;
        }
        double progress = progress(step);
        return switch (shape) {
            case COSINE -> peak * 0.5 * (1 + StrictMath.cos(Math.PI * progress));
            case LINEAR -> peak * (1 - progress);
            case CONSTANT -> peak;
            case WSD -> peak * Math.min(1, 5 * (1 - progress));
        };
    }
}
