package dev.starforge.text.template;

import dev.starforge.text.FileException;
import java.nio.file.Path;

/** Thrown when a chat template cannot be parsed or rendered; the message begins with the file. */
public final class ChatTemplateException extends FileException {
    private static final long serialVersionUID = 1;

    ChatTemplateException(Path file, String message, Throwable cause) {
        super(file, message, cause);
    }
}
