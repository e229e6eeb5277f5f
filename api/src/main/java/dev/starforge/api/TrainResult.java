package dev.starforge.api;

import java.nio.file.Path;

/**
 * A run that has ended.
 *
 * @param run its folder; {@link Starforge#load} and {@link Starforge#merge} take it, and mean its best state
 * @param steps that are done
 * @param end why it ended
 */
public record TrainResult(Path run, long steps, TrainOutcome outcome) {
    /** Why a run ended. */
    public enum TrainOutcome {
        /** All steps are done. */
        FINISHED,
        /** The validation loss no longer fell. */
        STOPPED_EARLY,
        /** Its listener wanted no more; everything is saved. */
        INTERRUPTED
    }
}
