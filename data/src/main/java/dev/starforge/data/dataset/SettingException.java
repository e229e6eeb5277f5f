package dev.starforge.data.dataset;

import dev.starforge.data.DatasetException;
import java.nio.file.Path;

/** A setting of a dataset that cannot be obeyed, or a file of settings that cannot be read. */
public final class SettingException extends DatasetException {
    private static final long serialVersionUID = 1;

    SettingException(Path source, String message) {
        super(source, message);
    }

    SettingException(Path source, String message, Throwable cause) {
        super(source, message, cause);
    }
}
