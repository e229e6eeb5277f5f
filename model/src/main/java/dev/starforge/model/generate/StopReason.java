package dev.starforge.model.generate;

/** Why a text ended. */
public enum StopReason {
    /** The model produced one of its end-of-text tokens. */
    EOS,
    MAX_TOKENS,
    /** One of the caller's stop strings came up. */
    STOP_SEQUENCE
}
