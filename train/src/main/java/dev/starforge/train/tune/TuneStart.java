package dev.starforge.train.tune;

/** How a call of {@link Tune} starts, given the rounds before. */
public enum TuneStart {
    FIRST,
    /** The last round is unfinished; its training continues from the last checkpoint. */
    RESUME,
    /** The last round is unfinished and was started with other settings; its training starts over. */
    RESTART,
    /** The last adapter is trained on the commits since. */
    NEW_COMMITS,
    /** No new commits, but more time or epochs than before: the last adapter is trained further, on all commits. */
    LONGER,
    /** Other settings than before: a new adapter is trained. */
    OTHER_SETTINGS,
    UP_TO_DATE
}
