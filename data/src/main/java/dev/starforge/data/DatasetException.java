package dev.starforge.data;

import dev.starforge.text.FileException;
import java.nio.file.Path;

/** Thrown if a dataset cannot be built or read. The message begins with the file or folder. */
public class DatasetException extends FileException {
    private static final long serialVersionUID = 1;

    public DatasetException(Path file, String message) {
        super(file, message);
    }

    public DatasetException(Path file, String message, Throwable cause) {
        super(file, message, cause);
    }
}
