package dev.starforge.data.dataset.parse;

/** Thrown if parser processes cannot run on this machine, so that all files would be split without a grammar. */
public final class ParserException extends RuntimeException {
    private static final long serialVersionUID = 1;

    ParserException(String message, Throwable cause) {
        super(message, cause);
    }
}
