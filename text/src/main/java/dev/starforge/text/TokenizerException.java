package dev.starforge.text;

import java.nio.file.Path;

/** Thrown when a tokenizer cannot be used; the message begins with the file and gives the location in it. */
public final class TokenizerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public TokenizerException(Path file, String message) {
        super(file + ": " + message);
    }

    public TokenizerException(Path file, String message, Throwable cause) {
        super(file + ": " + message, cause);
    }
}
