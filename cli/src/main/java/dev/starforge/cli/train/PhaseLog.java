package dev.starforge.cli.train;

import dev.starforge.train.checkpoint.RunEvents;
import dev.starforge.train.corpus.DataFacts;
import java.util.Locale;
import java.util.function.LongSupplier;

/** Passes on the events of a run, and reports the start and duration of each phase. */
public final class PhaseLog implements RunEvents {
    private final RunEvents next;
    private final LongSupplier nanoTime;
    private String phase = "loading";
    private long began;

    public PhaseLog(RunEvents next, LongSupplier nanoTime) {
        this.next = next;
        this.nanoTime = nanoTime;
        began = nanoTime.getAsLong();
        next.note("loading model and data");
    }

    private void enter(String name) {
        if (!name.equals(phase)) {
            next.note(took() + "; starting " + name);
            phase = name;
            began = nanoTime.getAsLong();
        }
    }

    private String took() {
        return String.format(Locale.ROOT, "%s took %.2f s", phase, (nanoTime.getAsLong() - began) * 1e-9);
    }

    /** Ends the last phase. */
    public void end() {
        next.note(took());
    }

    @Override
    public void stepStarted(long step) {
        enter("training");
        next.stepStarted(step);
    }

    @Override
    public void step(Step step) {
        next.step(step);
    }

    @Override
    public void data(String split, DataFacts facts) {
        next.data(split, facts);
    }

    @Override
    public void evaluating(long step, long tokens, long all, double seconds) {
        enter("evaluation");
        next.evaluating(step, tokens, all, seconds);
    }

    @Override
    public void evaluated(long step, double loss, boolean best) {
        enter("evaluation");
        next.evaluated(step, loss, best);
    }

    @Override
    public void note(String text) {
        next.note(text);
    }
}
