package dev.starforge.train.checkpoint;

import dev.starforge.tensor.device.Usage;
import dev.starforge.train.corpus.DataFacts;

/** Callbacks for the progress of a run. */
public interface RunEvents {
    /**
     * One optimizer step.
     *
     * @param step counted from 1
     * @param steps total steps of the run
     * @param tokens processed since the start of the run
     * @param lossTokens the part of {@code tokens} that counts in the loss
     * @param loss mean over the step's target tokens
     * @param gradientNorm before clipping
     * @param tokensPerSecond throughput of this step
     * @param memoryBytes device memory for weights, optimizer state and steps
     * @param residentBytes resident memory of the process; 0 if unknown
     * @param usage GPU usage during the step; on other devices the share of all cores that the process used, without
     *     memory
     * @param moved false if the step was skipped because loss or gradient was not finite
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

    /** A step starts. Everything the device does until the callback for the finished step belongs to this step. */
    default void stepStarted(long step) {}

    void step(Step step);

    /** Reports a split before the first step. */
    void data(String split, DataFacts facts);

    /** Reports the progress of an evaluation: {@code tokens} of {@code all} are done after {@code seconds}. */
    void evaluating(long step, long tokens, long all, double seconds);

    /** Reports a finished evaluation on the validation split. */
    void evaluated(long step, double loss, boolean best);

    /** Reports a message for the user, such as a saved checkpoint, a smaller batch or a damaged file. */
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
