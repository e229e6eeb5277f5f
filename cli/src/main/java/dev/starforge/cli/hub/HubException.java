package dev.starforge.cli.hub;

/** A model could not be fetched, kept or removed; the message says what to do next. */
public final class HubException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public HubException(String message) {
        super(message);
    }

    public HubException(String message, Throwable cause) {
        super(message, cause);
    }
}
