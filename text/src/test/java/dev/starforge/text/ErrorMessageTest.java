package dev.starforge.text;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.UnknownHostException;
import java.nio.file.AccessDeniedException;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

final class ErrorMessageTest {
    private static final IOException MISSING = new NoSuchFileException("/a/b");

    @Test
    void ioErrorsHaveTheirReason() {
        assertThat(ErrorMessage.of(MISSING)).isEqualTo("/a/b: no such file or folder");
        assertThat(ErrorMessage.of(new UncheckedIOException(MISSING))).isEqualTo("/a/b: no such file or folder");
        assertThat(ErrorMessage.of(new AccessDeniedException("/a"))).isEqualTo("/a: permission denied");
        assertThat(ErrorMessage.of(new UnknownHostException("hub"))).isEqualTo("unknown host hub");
        assertThat(ErrorMessage.of(new IOException("Broken pipe"))).isEqualTo("Broken pipe");
        assertThat(ErrorMessage.of(new IOException())).isEqualTo("I/O error");
        assertThat(ErrorMessage.of(new InvalidPathException("a", "Nul character not allowed")))
                .isEqualTo("invalid path 'a': Nul character not allowed");
    }

    @Test
    void namesOfExceptionsAreReplacedInMessagesThatHaveThem() {
        assertThat(ErrorMessage.of(new IllegalStateException("x: cannot be read: " + MISSING, MISSING)))
                .isEqualTo("x: cannot be read: /a/b: no such file or folder");
        FileException own = new FileException(Path.of("/a/b"), "cannot be read: " + MISSING, MISSING);
        assertThat(ErrorMessage.of(own)).isEqualTo("/a/b: cannot be read: no such file or folder");
        assertThat(ErrorMessage.of(new IllegalStateException("outer: " + own.getMessage(), own)))
                .isEqualTo("outer: /a/b: cannot be read: /a/b: no such file or folder");
    }

    @Test
    void bareMessagesAreReplacedToo() {
        FileException own = new FileException(Path.of("/a/b"), "cannot be read: " + MISSING.getMessage(), MISSING);
        assertThat(ErrorMessage.of(own)).isEqualTo("/a/b: cannot be read: no such file or folder");
        IOException without = new IOException((String) null);
        assertThat(ErrorMessage.of(new FileException(Path.of("x"), "cannot be read: null", without)))
                .isEqualTo("x: cannot be read: I/O error");
        assertThat(ErrorMessage.of(new IllegalStateException("as it is", MISSING)))
                .isEqualTo("as it is");
    }
}
