package dev.starforge.conformance;

/** A device did not do what a case asks; the message says what it did instead. */
final class ConformanceFailure extends AssertionError {
    private static final long serialVersionUID = 1;

    ConformanceFailure(String message) {
        super(message);
    }

    ConformanceFailure(String message, Throwable cause) {
        super(message, cause);
    }
}
