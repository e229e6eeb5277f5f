package dev.starforge.train.checkpoint;

import dev.starforge.tensor.device.Usage;
import dev.starforge.train.corpus.DataFacts;

/** What a run tells while it goes on. */
public interface RunEvents {
    /**
     * One optimizer step.
     *
     * @param step counted from 1
     * @param steps all of the run
     * @param tokens seen since the beginning
     * @param lossTokens what of them counted in the loss
     * @param loss mean over the step's target tokens
     * @param gradientNorm before clipping
     * @param tokensPerSecond of this step
     * @param memoryBytes taken from the device for weights, state and steps
     * @param residentBytes of the process; 0 where the system does not say
     * @param usage of the GPU while it computed; elsewhere the share of all cores that the process used, and no memory
     * @param moved false when the step was skipped because it was not finite
     */
    record Step(
            long step,
            long steps,
            double epoch,
            long tokens,
            long lossTokens,
            double loss,
            double learningRate,
            double gradientNorm,
            double tokensPerSecond,
            long memoryBytes,
            long residentBytes,
            Usage usage,
            boolean moved) {}

    /** A step begins; what the device does until the step is told of is the step's alone. */
    default void begins(long step) {}

    void step(Step step);

    /** What a split has, before the first step. */
    void data(String split, DataFacts facts);

    /** An evaluation goes on: so many tokens of all of its sample are done after so many seconds. */
    void evaluating(long step, long tokens, long all, double seconds);

    /** An evaluation on the validation split. */
    void evaluated(long step, double loss, boolean best);

    /** Something to know: a checkpoint, a smaller batch, a damaged file. */
    void note(String text);

    RunEvents SILENT = new RunEvents() {
        @Override
        public void step(Step step) {}

        @Override
        public void data(String split, DataFacts facts) {}

        @Override
        public void evaluating(long step, long tokens, long all, double seconds) {}

        @Override
        public void evaluated(long step, double loss, boolean best) {}

        @Override
        public void note(String text) {}
    };
}
