package dev.starforge.serve.engine;

import java.time.Duration;

/** The engine rejected a request. The message is sent to the client. */
public final class EngineException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public enum EngineErrorKind {
        /** A retry may succeed. */
        QUEUE_FULL,
        /** Prompt and max_tokens exceed the context or the KV cache. */
        NEVER_FITS,
        UNKNOWN_ADAPTER,
        ADAPTER_EXISTS,
        /** The files are not an adapter of this model, or no adapter slot is free. */
        ADAPTER_UNUSABLE,
        /** The engine has stopped after a failure. */
        DEAD
    }

    private final EngineErrorKind kind;
    private final Duration retryAfter;

    public EngineException(EngineErrorKind kind, String message) {
        this(kind, message, Duration.ofSeconds(1));
    }

    /** @param retryAfter when a retry may succeed */
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
