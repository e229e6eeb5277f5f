package dev.starforge.train.plan;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class MachineTest {
    @TempDir
    Path group;

    @Test
    void aContainersLimitIsTheLimit() throws IOException {
        assertThat(Machine.containerBytes(group)).as("no container").isEqualTo(Long.MAX_VALUE);
        Files.writeString(group.resolve("memory.max"), "8000000000\n");
        Files.writeString(group.resolve("memory.current"), "5000000000\n");
        Files.writeString(group.resolve("memory.stat"), "anon 3000000000\ninactive_file 1500000000\n");
        assertThat(Machine.containerBytes(group)).isEqualTo(4_500_000_000L);
        Files.writeString(group.resolve("memory.max"), "max\n");
        assertThat(Machine.containerBytes(group)).as("no limit").isEqualTo(Long.MAX_VALUE);
    }
}
