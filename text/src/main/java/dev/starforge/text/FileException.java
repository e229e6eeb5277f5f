package dev.starforge.text;

import java.nio.file.Path;

/** Thrown when a file or folder cannot be used; the message begins with its path. */
public class FileException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public FileException(Path file, String message) {
        super(file + ": " + message);
    }

    public FileException(Path file, String message, Throwable cause) {
        super(file + ": " + message, cause);
    }
}
