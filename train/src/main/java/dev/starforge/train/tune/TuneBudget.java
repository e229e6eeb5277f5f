package dev.starforge.train.tune;

import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.util.OptionalDouble;

/**
 * Divides the time among the steps of {@link Tune}. Before training, estimates follow from a short measurement; training then
 * gets a time limit instead of a number of steps, and the evaluation after it uses the speed that training had. A forward
 * pass takes a third of a training step.
 *
 * @param seconds for all steps; empty if the settings define the length of training
 * @param tokensPerSecond measured training throughput
 * @param parameters of the model
 */
record TuneBudget(OptionalDouble seconds, double tokensPerSecond, long parameters) {
    private static final int EVALUATED = 32_768;
    private static final int MOST_EVALUATED = 65_536;
    private static final int LEAST_EVALUATED = 4_096;
    private static final double EVALUATION_SHARE = 0.2;
    private static final double FORWARD = 3;

    /** Share of the evaluated tokens in the validation at the end of training. */
    private static final double VALIDATION = 0.25;

    private static final double LEAST_TRAINING = 0.4;
    private static final double FOR_SAMPLES = 10;

    /** Time that a step takes whatever its data. */
    static final double START = 3;

    private static final double BYTES_PER_SECOND = 100e6;
    private static final int MOST_EPOCHS = 4;
    private static final int MOST_LATER_EPOCHS = 1;

    /** Number of held-out tokens of the validation at the end of training. */
    int validationTokens() {
        return (int) (VALIDATION * tokens(evaluationSeconds() - FOR_SAMPLES, tokensPerSecond));
    }

    /**
     * Number of held-out tokens to evaluate base and tuned model on: what there is time for.
     *
     * @param passed seconds since the start
     * @param measured training throughput of the run
     */
    int evaluationTokens(double passed, double measured) {
        if (seconds.isEmpty()) {
            return EVALUATED;
        }
        double all = seconds.getAsDouble();
        double left = all - passed - mergeSeconds() - FOR_SAMPLES;
        return tokens(Math.clamp(left, EVALUATION_SHARE / 2 * all, EVALUATION_SHARE * all), measured);
    }

    /** Number of tokens that both models evaluate in a time. */
    private static int tokens(double seconds, double tokensPerSecond) {
        return (int) Math.clamp(seconds * tokensPerSecond * FORWARD / 2, LEAST_EVALUATED, MOST_EVALUATED);
    }

    /** Time to evaluate base and tuned model, and of the samples. */
    double evaluationSeconds() {
        double each = 2 * EVALUATED / FORWARD / tokensPerSecond;
        return Math.min(each, EVALUATION_SHARE * seconds.orElse(Double.MAX_VALUE)) + FOR_SAMPLES;
    }

    /** Time to write the merged model in 16 bits, verify it and quantize it. */
    double mergeSeconds() {
        return START + 2 * 2 * parameters / BYTES_PER_SECOND;
    }

    /** Time left for training after {@code passed} seconds, but at least a useful minimum. */
    double trainingSeconds(double passed) {
        double all = seconds.orElse(0);
        double validation = VALIDATION * (evaluationSeconds() - FOR_SAMPLES) / 2;
        return Math.max(LEAST_TRAINING * all, all - passed - validation - evaluationSeconds() - mergeSeconds());
    }

    static double tokensOfStep(RunConfig config) {
        return (double) config.get(Keys.BATCH) * config.get(Keys.ACCUMULATION) * config.get(Keys.CONTEXT);
    }

    /** Number of tokens that training reads in a time, by the measurement: at least one step. */
    long trainingTokens(RunConfig config, double time) {
        return (long) Math.max(tokensOfStep(config), tokensPerSecond * time);
    }

    /**
     * Maximum number of steps, however much time there is: the epochs or steps of the settings, or else a few epochs.
     *
     * @param later whether the data is only the commits since an earlier round
     */
    static int mostSteps(RunConfig config, long available, boolean later) {
        int epochs = config.isSet(Keys.EPOCHS) ? config.get(Keys.EPOCHS) : later ? MOST_LATER_EPOCHS : MOST_EPOCHS;
        double useful = Math.max(1, Math.ceil(epochs * available / tokensOfStep(config)));
        int most = config.get(Keys.MAX_STEPS);
        return (int) Math.min(most > 0 ? most : Integer.MAX_VALUE, useful);
    }
}
