package dev.starforge.text.file;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.FileException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class OutputLockTest {
    private static final int RUNS = 4;
    private static final int ATTEMPTS = 200;

    @TempDir
    Path folder;

    @Test
    void theSecondRunFailsAndNamesTheFirst() throws IOException {
        Path out = folder.resolve("model.gguf");
        try (OutputLock _ = OutputLock.take(out, "starforge merge")) {
            assertThatThrownBy(() -> OutputLock.take(out, "starforge merge"))
                    .isInstanceOf(FileException.class)
                    .hasMessageStartingWith(out + ": is being written by another run (starforge merge, process "
                            + ProcessHandle.current().pid() + ")")
                    .hasMessageEndingWith("use another name");
            OutputLock.take(folder.resolve("other.gguf"), "starforge merge").close();
        }
        OutputLock.take(out, "starforge merge").close();
        assertThat(folder).isEmptyDirectory();
    }

    @Test
    void aLockFileThatAKilledRunLeftIsFree() throws IOException {
        Files.writeString(folder.resolve(".model.gguf.lock"), "starforge merge, process 1\n");
        OutputLock.take(folder.resolve("model.gguf"), "starforge merge").close();
        assertThat(folder).isEmptyDirectory();
    }

    @Test
    void oneRunHoldsTheLockAtATimeAlthoughItsFileIsDeleted() throws Exception {
        Path out = folder.resolve("model.gguf");
        AtomicInteger holders = new AtomicInteger();
        AtomicInteger held = new AtomicInteger();
        try (ExecutorService runs = Executors.newFixedThreadPool(RUNS)) {
            List<Future<?>> all = new ArrayList<>();
            for (int i = 0; i < RUNS; i++) {
                all.add(runs.submit(() -> {
                    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
                        try (OutputLock _ = OutputLock.take(out, "starforge merge")) {
                            assertThat(holders.incrementAndGet()).isEqualTo(1);
                            held.incrementAndGet();
                            holders.decrementAndGet();
                        } catch (FileException busy) {
                            assertThat(busy).hasMessageContaining("is being written by another run");
                        }
                    }
                    return null;
                }));
            }
            for (Future<?> run : all) {
                run.get();
            }
        }
        assertThat(held).hasPositiveValue();
        assertThat(folder).isEmptyDirectory();
    }
}
