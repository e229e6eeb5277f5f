package dev.starforge.serve.engine;

import java.time.Duration;

/** What an engine does not take in; the message is for the client. */
public final class EngineException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public enum EngineErrorKind {
        /** Later it may fit. */
        QUEUE_FULL,
        /** The prompt and what is to follow need more context or KV memory than there is. */
        NEVER_FITS,
        UNKNOWN_ADAPTER,
        ADAPTER_EXISTS,
        /** Files that are no adapter of this model, or no more room for one. */
        ADAPTER_UNUSABLE,
        /** The engine has failed, and will not answer again. */
        DEAD
    }

    private final EngineErrorKind kind;
    private final Duration retryAfter;

    public EngineException(EngineErrorKind kind, String message) {
        this(kind, message, Duration.ofSeconds(1));
    }

    /** @param retryAfter a guess of when it is worth asking again */
    public EngineException(EngineErrorKind kind, String message, Duration retryAfter) {
        super(message, null, false, false);
        this.kind = kind;
        this.retryAfter = retryAfter;
    }

    public EngineErrorKind kind() {
        return kind;
    }

    public Duration retryAfter() {
        return retryAfter;
    }

    public String text() {
        return String.valueOf(getMessage());
    }
}
