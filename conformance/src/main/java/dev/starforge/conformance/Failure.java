package dev.starforge.conformance;

/** A device did not do what a case asks; the message says what it did instead. */
final class Failure extends AssertionError {
    private static final long serialVersionUID = 1;

    Failure(String message) {
        super(message);
    }

    Failure(String message, Throwable cause) {
        super(message, cause);
    }
}
