package dev.starforge.serve.generation;

/** Why a sequence failed, as reported to clients. */
public enum GenerationError {
    CANCELLED(503, "the request was cancelled", true),
    TIMEOUT(504, "the request timed out", true),
    OUT_OF_MEMORY(503, "the device has no memory left for this request", true),
    INFERENCE_FAILED(500, "the model could not compute this request", false);

    private final int status;
    private final String message;
    private final boolean retriable;

    GenerationError(int status, String message, boolean retriable) {
        this.status = status;
        this.message = message;
        this.retriable = retriable;
    }

    /** The HTTP status if the response has not begun. */
    public int status() {
        return status;
    }

    public String message() {
        return message;
    }

    public boolean retriable() {
        return retriable;
    }
}
