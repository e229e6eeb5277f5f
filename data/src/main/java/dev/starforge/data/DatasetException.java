package dev.starforge.data;

import java.nio.file.Path;

/** A dataset that cannot be built or read as asked; the message begins with the file or folder. */
public class DatasetException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public DatasetException(Path file, String message) {
        super(file + ": " + message);
    }

    public DatasetException(Path file, String message, Throwable cause) {
        super(file + ": " + message, cause);
    }
}
