package dev.starforge.train.tune;

import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.util.OptionalDouble;

/**
 * Estimates the time of each step of {@link Tune} on this machine, and the time that is left for training. All estimates
 * follow from the measured training throughput: a forward pass takes a third of a step.
 *
 * @param seconds for all of it; empty where settings say how long training is
 * @param tokensPerSecond of training, as measured
 * @param parameters of the model
 */
record TuneBudget(OptionalDouble seconds, double tokensPerSecond, long parameters) {
    private static final int EVALUATED = 32_768;
    private static final int LEAST_EVALUATED = 2_048;
    private static final double EVALUATION_SHARE = 0.15;

    /** The minutes are meant for an undisturbed machine, on which steps turned out a tenth faster than measured. */
    private static final double CAUTION = 0.95;

    private static final double LEAST_TRAINING = 0.4;
    private static final double FOR_SAMPLES = 10;
    private static final double START = 3;
    private static final double BYTES_PER_SECOND = 100e6;
    private static final double COMMITS_PER_SECOND = 15;
    private static final int MOST_EPOCHS = 4;
    private static final int MOST_LATER_EPOCHS = 1;

    static double datasetSeconds(int commits) {
        return START + commits / COMMITS_PER_SECOND;
    }

    /** Held-out tokens to evaluate on: always as many, but for machines where that would take too long. */
    int evaluationTokens() {
        int tokens = EVALUATED;
        double room = EVALUATION_SHARE * seconds.orElse(Double.MAX_VALUE);
        while (tokens > LEAST_EVALUATED && tokens / tokensPerSecond > room) {
            tokens /= 2;
        }
        return tokens;
    }

    /** One forward pass at the end of training, one of the base and one of the tuned model; and some samples. */
    double evaluationSeconds() {
        return evaluationTokens() / tokensPerSecond + FOR_SAMPLES;
    }

    /** Writing 16 bits a weight, proving them, and quantizing them. */
    double mergeSeconds() {
        return START + 2 * 2 * parameters / BYTES_PER_SECOND;
    }

    /** What is left for training when so much time has passed; never so little that it is not worth the rest. */
    double trainingSeconds(double passed) {
        double all = seconds.orElse(0);
        return Math.max(LEAST_TRAINING * all, all - passed - evaluationSeconds() - mergeSeconds());
    }

    static double tokensOfStep(RunConfig config) {
        return (double) config.get(Keys.BATCH) * config.get(Keys.ACCUMULATION) * config.get(Keys.CONTEXT);
    }

    /**
     * Optimizer steps for which there is time, at least one, and no more than some epochs of what there is.
     *
     * @param later whether what there is are the commits since an earlier round
     */
    int steps(RunConfig config, double passed, long available, boolean later) {
        double inTime = CAUTION * tokensPerSecond * trainingSeconds(passed) / tokensOfStep(config);
        int epochs = later ? MOST_LATER_EPOCHS : MOST_EPOCHS;
        double useful = Math.ceil(epochs * available / tokensOfStep(config));
        return (int) Math.max(1, Math.min(inTime, useful));
    }
}
