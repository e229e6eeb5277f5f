package dev.starforge.api;

/** Receives the events of a training run, on the thread that trains. */
public interface TrainingListener {
    /**
     * An optimizer step is complete.
     *
     * @param step its metrics
     * @return true to continue; false to save a checkpoint and end the run, which can be resumed
     */
    boolean onStep(TrainStep step);

    /**
     * The model was evaluated on the validation split.
     *
     * @param step the last completed optimizer step
     * @param loss mean cross-entropy per validation token, in nats
     * @param best whether it is the lowest loss of the run so far
     */
    default void onEvaluation(long step, double loss, boolean best) {}

    /**
     * A message about the run: a setting that was adapted to the device, a saved checkpoint, a reduced batch size.
     *
     * @param text the message
     */
    default void onNote(String text) {}

    /**
     * The metrics of an optimizer step.
     *
     * @param step step number, from 1
     * @param steps total number of steps of the run
     * @param loss mean cross-entropy per target token, in nats
     * @param learningRate learning rate of this step
     * @param gradientNorm global gradient norm before clipping
     * @param tokensPerSecond throughput of this step
     * @param memoryBytes device memory in use
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
