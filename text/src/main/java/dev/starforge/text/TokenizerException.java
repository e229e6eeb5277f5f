package dev.starforge.text;

import java.nio.file.Path;

/** A tokenizer that cannot be used as asked; the message begins with the file and names the place in it. */
public final class TokenizerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public TokenizerException(Path file, String message) {
        super(file + ": " + message);
    }

    public TokenizerException(Path file, String message, Throwable cause) {
        super(file + ": " + message, cause);
    }
}
