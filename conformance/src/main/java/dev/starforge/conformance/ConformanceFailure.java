package dev.starforge.conformance;

/** A device failed a check; the message gives expected and actual results. */
final class ConformanceFailure extends AssertionError {
    private static final long serialVersionUID = 1;

    ConformanceFailure(String message) {
        super(message);
    }

    ConformanceFailure(String message, Throwable cause) {
        super(message, cause);
    }
}
