package dev.starforge.model.generate;

/** Why generation ended. */
public enum StopReason {
    /** The model generated an EOS token. */
    EOS,
    MAX_TOKENS,
    /** One of the stop strings occurred. */
    STOP_SEQUENCE
}
