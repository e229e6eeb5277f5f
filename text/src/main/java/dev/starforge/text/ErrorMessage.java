package dev.starforge.text;

import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ConnectException;
import java.net.UnknownHostException;
import java.nio.channels.UnresolvedAddressException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.util.Objects;

/**
 * Messages of exceptions as users read them. Many exceptions of the JDK have only a file or host name as their message; the
 * type has the reason. Other modules append such an exception, or its message, to their own, so both are replaced here, where a
 * message leaves the program, and not in each place that reads or writes a file.
 */
public final class ErrorMessage {
    private ErrorMessage() {}

    /** Returns the message with the reasons of its I/O errors in words, without names of exceptions. */
    public static String of(Throwable failure) {
        return switch (failure) {
            case IOException io -> reason(io);
            case UncheckedIOException wrapper -> reason(Objects.requireNonNull(wrapper.getCause()));
            case InvalidPathException path -> "invalid path '" + path.getInput() + "': " + path.getReason();
            default -> withReasons(String.valueOf(failure.getMessage()), failure);
        };
    }

    private static String withReasons(String message, Throwable failure) {
        String text = message;
        for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause()) {
            if (cause instanceof IOException || cause instanceof UncheckedIOException) {
                String reason = withoutPath(of(cause), cause, text);
                String raw = ": " + cause.getMessage();
                text = text.replace(cause.toString(), reason);
                text = text.endsWith(raw) ? text.substring(0, text.length() - raw.length()) + ": " + reason : text;
            }
        }
        return text;
    }

    /** Omits the path from a reason if the message begins with it. */
    private static String withoutPath(String reason, Throwable cause, String message) {
        String path = cause instanceof FileSystemException file ? file.getFile() + ": " : "\0";
        return reason.startsWith(path) && message.startsWith(path) ? reason.substring(path.length()) : reason;
    }

    /** The reason of an exception of Java's HTTP client. */
    private static String withoutMessage(ConnectException failure) {
        return switch (failure.getCause()) {
            case ConnectException inner -> reason(inner);
            case UnresolvedAddressException _ -> "unknown host";
            case null, default -> "connection refused";
        };
    }

    private static String reason(IOException failure) {
        return switch (failure) {
            case NoSuchFileException missing -> missing.getFile() + ": no such file or folder";
            case AccessDeniedException denied -> denied.getFile() + ": permission denied";
            case FileAlreadyExistsException existing -> existing.getFile() + " already exists";
            case DirectoryNotEmptyException folder -> folder.getFile() + ": folder is not empty";
            case NotDirectoryException file -> file.getFile() + ": not a folder";
            case FileSystemLoopException link -> link.getFile() + ": symbolic links form a loop";
            case FileSystemException file when file.getReason() == null -> file.getFile() + ": I/O error";
            case UnknownHostException host -> "unknown host " + host.getMessage();
            case ConnectException unexplained when unexplained.getMessage() == null -> withoutMessage(unexplained);
            case EOFException _ -> "unexpected end of file";
            default ->
                failure.getMessage() != null
                        ? failure.getMessage()
                        : failure.getCause() instanceof IOException cause ? reason(cause) : "I/O error";
        };
    }
}
