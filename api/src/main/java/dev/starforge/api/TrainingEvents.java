package dev.starforge.api;

import dev.starforge.train.checkpoint.RunEvents;
import dev.starforge.train.corpus.DataFacts;

/** Forwards the events of a run to a {@link TrainingListener} and stops the run when the listener returns false. */
final class TrainingEvents implements RunEvents {
    private final TrainingListener listener;
    private Runnable stop = () -> {};

    TrainingEvents(TrainingListener listener) {
        this.listener = listener;
    }

    void stopWith(Runnable stop) {
        this.stop = stop;
    }

    @Override
    public void step(Step step) {
        TrainingListener.TrainStep trainStep = new TrainingListener.TrainStep(
                step.step(),
                step.steps(),
                step.loss(),
                step.learningRate(),
                step.gradientNorm(),
                step.tokensPerSecond(),
                step.memoryBytes());
        if (!listener.onStep(trainStep)) {
            stop.run();
        }
    }

    @Override
    public void data(String split, DataFacts facts) {}

    @Override
    public void evaluating(long step, long tokens, long all, double seconds) {}

    @Override
    public void evaluated(long step, double loss, boolean best) {
        listener.onEvaluation(step, loss, best);
    }

    @Override
    public void note(String text) {
        listener.onNote(text);
    }
}
