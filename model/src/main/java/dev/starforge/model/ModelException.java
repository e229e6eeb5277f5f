package dev.starforge.model;

import java.nio.file.Path;

/** A model, adapter or weight file is invalid. The message begins with the file and states what was expected. */
public class ModelException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public ModelException(Path file, String message) {
        super(file + ": " + message);
    }

    public ModelException(Path file, String message, Throwable cause) {
        super(file + ": " + message, cause);
    }
}
