package dev.starforge.serve.pool.supervise;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class WorkerLogsTest {
    @TempDir
    private Path state;

    private Path logs;

    @BeforeEach
    void folder() throws IOException {
        logs = Files.createDirectory(state.resolve(WorkerLogs.FOLDER));
    }

    @Test
    void aLargeLogIsCopiedAndTruncated() throws IOException {
        Path log = logs.resolve("w-1.log");
        Files.write(log, new byte[(int) WorkerLogs.MAX_BYTES]);
        WorkerLogs.rotate(state, Set.of("w-1"));
        assertThat(log).hasSize(WorkerLogs.MAX_BYTES);
        Files.write(log, new byte[(int) WorkerLogs.MAX_BYTES + 1]);
        WorkerLogs.rotate(state, Set.of("w-1"));
        assertThat(log).isEmptyFile();
        assertThat(logs.resolve("w-1.log.1")).hasSize(WorkerLogs.MAX_BYTES + 1);
    }

    @Test
    void theNewestLogsOfStoppedWorkersAreKept() throws IOException {
        for (int i = 0; i < WorkerLogs.KEPT + 3; i++) {
            Path log = Files.createFile(logs.resolve("w-" + i + ".log"));
            Files.setLastModifiedTime(log, FileTime.fromMillis(1000L * i));
        }
        Files.createFile(logs.resolve("w-1.log.1"));
        WorkerLogs.rotate(state, Set.of("w-0"));
        try (Stream<Path> left = Files.list(logs)) {
            assertThat(left.map(file -> file.getFileName().toString()))
                    .hasSize(WorkerLogs.KEPT + 1)
                    .contains("w-0.log", "w-3.log")
                    .doesNotContain("w-1.log", "w-1.log.1", "w-2.log");
        }
    }

    @Test
    void theLastErrorOfThisStartIsFound() throws IOException {
        Path log = Files.writeString(logs.resolve("w-1.log"), "starforge: of an earlier start\n");
        long from = WorkerLogs.length(log);
        assertThat(WorkerLogs.lastError(log, from)).isEmpty();
        Files.writeString(log, "starforge: first\nstarforge: second\n{}\n");
        assertThat(WorkerLogs.lastError(log, 0)).isEqualTo(" (second)");
        assertThat(WorkerLogs.lastError(logs.resolve("none"), 0)).isEmpty();
    }

    @Test
    void anErrorAfterTruncationIsFound() throws IOException {
        Path log = logs.resolve("w-1.log");
        Files.write(log, new byte[(int) WorkerLogs.MAX_BYTES + 1]);
        long from = WorkerLogs.length(log);
        WorkerLogs.rotate(state, Set.of("w-1"));
        Files.writeString(log, "starforge: out of memory\n", StandardOpenOption.APPEND);
        assertThat(WorkerLogs.lastError(log, from)).isEqualTo(" (out of memory)");
    }
}
