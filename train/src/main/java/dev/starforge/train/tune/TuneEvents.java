package dev.starforge.train.tune;

import dev.starforge.data.dataset.BuildProgress;
import dev.starforge.train.checkpoint.RunEvents;

/** Callbacks for the progress of {@link Tune}. */
public interface TuneEvents {
    /** Reports the plan before the first step. */
    void plan(TunePlan plan);

    /**
     * Asks for confirmation before a long run.
     *
     * @return true to continue
     */
    boolean confirm(double seconds);

    void begin(TuneStep step);

    void done(TuneStep step, String what, double seconds);

    /** Reports a step that an earlier call has finished. */
    void alreadyDone(TuneStep step);

    void note(String text);

    /**
     * Reports an operation that runs as its expansion, because the device has no native kernel or its use is disabled.
     */
    void fallback(String text);

    /** Callbacks for the progress of the dataset. */
    BuildProgress dataset();

    /** Callbacks for the progress of training. */
    RunEvents training();

    /** Offers to stop training from now on, until the returned watch is closed. */
    Watch stoppable(Runnable stop);

    /** An open offer to stop training. */
    interface Watch extends AutoCloseable {
        @Override
        void close();
    }
}
