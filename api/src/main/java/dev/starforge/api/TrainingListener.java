package dev.starforge.api;

/** Hears a run while it trains, on the thread that trains. */
public interface TrainingListener {
    /**
     * One optimizer step is done.
     *
     * @param step what came of it
     * @return whether to go on; otherwise the run is saved, ends, and can be resumed
     */
    boolean onStep(TrainStep step);

    /**
     * The model was evaluated on the validation split.
     *
     * @param step after which
     * @param loss mean over its tokens, in nats
     * @param best whether none was lower before
     */
    default void onEvaluation(long step, double loss, boolean best) {}

    /**
     * Something to know: a setting that was adapted to the device and why, a checkpoint, a smaller batch.
     *
     * @param text a sentence
     */
    default void onNote(String text) {}

    /**
     * One optimizer step.
     *
     * @param step counted from 1
     * @param steps all of the run
     * @param loss mean over the step's target tokens, in nats
     * @param learningRate that was used
     * @param gradientNorm before clipping
     * @param tokensPerSecond of this step
     * @param memoryBytes taken from the device
     */
    record TrainStep(
            long step,
            long steps,
            double loss,
            double learningRate,
            double gradientNorm,
            double tokensPerSecond,
            long memoryBytes) {}
}
