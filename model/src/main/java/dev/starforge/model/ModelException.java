package dev.starforge.model;

import java.nio.file.Path;

/** A model, adapter or weight file that cannot be used; the message begins with the file and says what was expected. */
public class ModelException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public ModelException(Path file, String message) {
        super(file + ": " + message);
    }

    public ModelException(Path file, String message, Throwable cause) {
        super(file + ": " + message, cause);
    }
}
