package dev.starforge.train.tune;

import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.util.OptionalDouble;

/**
 * Estimates the time of each step of {@link Tune} on this machine, and the time that is left for training. All
 * estimates follow from the measured training throughput: a forward pass takes a third of a step.
 *
 * @param seconds for all steps; empty if the settings define the length of training
 * @param tokensPerSecond measured training throughput
 * @param parameters of the model
 */
record TuneBudget(OptionalDouble seconds, double tokensPerSecond, long parameters) {
    private static final int EVALUATED = 32_768;
    private static final int LEAST_EVALUATED = 2_048;
    private static final double EVALUATION_SHARE = 0.15;

    /** Safety factor: on an undisturbed machine, steps took a tenth longer than measured. */
    private static final double SAFETY_FACTOR = 0.95;

    private static final double LEAST_TRAINING = 0.4;
    private static final double FOR_SAMPLES = 10;
    private static final double START = 3;
    private static final double BYTES_PER_SECOND = 100e6;
    private static final int MOST_EPOCHS = 4;
    private static final int MOST_LATER_EPOCHS = 1;

    /** Number of held-out tokens to evaluate on: a constant, but less on slow machines. */
    int evaluationTokens() {
        int tokens = EVALUATED;
        double room = EVALUATION_SHARE * seconds.orElse(Double.MAX_VALUE);
        while (tokens > LEAST_EVALUATED && tokens / tokensPerSecond > room) {
            tokens /= 2;
        }
        return tokens;
    }

    /**
     * Time of one forward pass at the end of training, one of the base model and one of the tuned model, and of the
     * samples.
     */
    double evaluationSeconds() {
        return evaluationTokens() / tokensPerSecond + FOR_SAMPLES;
    }

    /** Time to write the merged model in 16 bits, verify it and quantize it. */
    double mergeSeconds() {
        return START + 2 * 2 * parameters / BYTES_PER_SECOND;
    }

    /** Time left for training after {@code passed} seconds, but at least a useful minimum. */
    double trainingSeconds(double passed) {
        double all = seconds.orElse(0);
        return Math.max(LEAST_TRAINING * all, all - passed - evaluationSeconds() - mergeSeconds());
    }

    static double tokensOfStep(RunConfig config) {
        return (double) config.get(Keys.BATCH) * config.get(Keys.ACCUMULATION) * config.get(Keys.CONTEXT);
    }

    /**
     * Number of optimizer steps in the remaining time: at least one, and at most a few epochs.
     *
     * @param later whether the data is only the commits since an earlier round
     */
    int steps(RunConfig config, double passed, long available, boolean later) {
        double inTime = SAFETY_FACTOR * tokensPerSecond * trainingSeconds(passed) / tokensOfStep(config);
        int epochs = later ? MOST_LATER_EPOCHS : MOST_EPOCHS;
        double useful = Math.ceil(epochs * available / tokensOfStep(config));
        return (int) Math.max(1, Math.min(inTime, useful));
    }
}
