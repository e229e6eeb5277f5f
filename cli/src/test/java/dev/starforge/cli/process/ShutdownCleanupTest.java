package dev.starforge.cli.process;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class ShutdownCleanupTest {
    @TempDir
    Path folder;

    private final StringWriter err = new StringWriter();

    @Test
    void workThatAsksEndsAndClearsUpItself() throws InterruptedException {
        boolean[] cleared = {false};
        ShutdownCleanup interruption =
                ShutdownCleanup.watch(Duration.ofMinutes(1), () -> cleared[0] = true, "over", new PrintWriter(err));
        interruption.check();
        Thread signal = Thread.ofPlatform().start(interruption::interrupt);
        assertThatThrownBy(() -> {
                    while (signal.isAlive()) {
                        interruption.check();
                    }
                })
                .isInstanceOf(ShutdownCleanup.Interrupted.class);
        interruption.close();
        signal.join();
        assertThat(cleared[0]).isFalse();
        assertThat(err.toString()).contains("starforge: over");
        assertThat(ExitCode.of(new ShutdownCleanup.Interrupted("over"))).isEqualTo(130);
    }

    @Test
    void whatIsHalfWrittenGoesAndWhatIsNotStays() throws IOException {
        Path out = folder.resolve("MODEL");
        Files.createDirectories(folder.resolve(".partial-MODEL/inside"));
        Files.writeString(folder.resolve(".partial-MODEL/inside/file"), "half");
        Files.writeString(folder.resolve("MODEL.partial"), "half");
        Files.writeString(folder.resolve(".partial-MODEL.gguf.partial"), "half");
        Files.writeString(folder.resolve(".partial-OTHER"), "somebody else's");
        try (ShutdownCleanup interruption = ShutdownCleanup.removing(out, new PrintWriter(err))) {
            interruption.interrupt();
        }
        assertThat(folder).isDirectoryContaining(path -> path.endsWith(".partial-OTHER"));
        assertThat(folder.toFile().list()).hasSize(1);
        assertThat(err.toString()).contains("interrupted; " + out + " was not written");
    }

    @Test
    void aSignalAfterTheEndSaysNothing() {
        ShutdownCleanup interruption = ShutdownCleanup.watch(Duration.ZERO, () -> {}, "over", new PrintWriter(err));
        interruption.close();
        interruption.interrupt();
        assertThat(err.toString()).isEmpty();
    }
}
