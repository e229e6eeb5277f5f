package dev.starforge.train.tune;

import dev.starforge.data.dataset.BuildProgress;
import dev.starforge.train.checkpoint.RunEvents;

/** Callbacks for the progress of {@link Tune}. */
public interface TuneEvents {
    /** What will be done, before anything is. */
    void plan(TunePlan plan);

    /**
     * Asked before work that takes long.
     *
     * @return true to continue
     */
    boolean confirm(double seconds);

    void begin(TuneStep step);

    void done(TuneStep step, String what, double seconds);

    /** A step that an earlier call has done. */
    void already(TuneStep step);

    void note(String text);

    /** An operation runs as its definition, because the device has no native kernel or its use is disabled. */
    void fallback(String text);

    /** How the dataset comes along. */
    BuildProgress dataset();

    /** How the training comes along. */
    RunEvents training();

    /** Training can be asked to stop from now on, until the result is closed. */
    Watch stoppable(Runnable stop);

    /** Somebody who may want to stop. */
    interface Watch extends AutoCloseable {
        @Override
        void close();
    }
}
