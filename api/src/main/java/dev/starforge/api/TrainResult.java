package dev.starforge.api;

import java.nio.file.Path;

/**
 * The result of a training run.
 *
 * @param run the run folder; {@link Starforge#load} and {@link Starforge#merge} accept it and use its best checkpoint
 * @param steps the number of completed optimizer steps
 * @param outcome why training ended
 */
public record TrainResult(Path run, long steps, TrainOutcome outcome) {
    /** Why training ended. */
    public enum TrainOutcome {
        /** All steps are complete. */
        FINISHED,
        /** Early stopping: the validation loss no longer decreased. */
        STOPPED_EARLY,
        /** The listener returned false. A checkpoint was saved; the run can be resumed. */
        INTERRUPTED
    }
}
