package dev.starforge.cli.output;

import java.io.EOFException;
import java.io.IOException;
import java.net.UnknownHostException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;

/** Messages of I/O errors. Many JDK exceptions have only a file or host name as their message; the type has the reason. */
public final class ErrorMessage {
    private ErrorMessage() {}

    /** Returns a message with file and reason, without the name of the exception. */
    public static String of(IOException failure) {
        return switch (failure) {
            case NoSuchFileException missing -> missing.getFile() + ": no such file or folder";
            case AccessDeniedException denied -> denied.getFile() + ": permission denied";
            case FileAlreadyExistsException existing -> existing.getFile() + " already exists";
            case DirectoryNotEmptyException folder -> folder.getFile() + ": folder is not empty";
            case UnknownHostException host -> "unknown host " + host.getMessage();
            case EOFException _ -> "unexpected end of file";
            default ->
                failure.getMessage() != null
                        ? failure.getMessage()
                        : failure.getCause() instanceof IOException cause ? of(cause) : "I/O error";
        };
    }
}
