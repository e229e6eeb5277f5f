package dev.starforge.cpu.core;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** One thread for each physical core that is worth one, whatever the machine. */
final class CoresTest {
    private static final Function<List<String>, String> NO_COMMANDS = command -> {
        throw new UncheckedIOException(new IOException("no " + command.getFirst()));
    };

    @TempDir
    private Path cpus;

    private void cpu(int index, String siblings) throws IOException {
        Path topology = Files.createDirectories(cpus.resolve("cpu" + index).resolve("topology"));
        Files.writeString(topology.resolve("thread_siblings_list"), siblings + "\n");
    }

    private Path missing() {
        return cpus.resolve("missing");
    }

    private int onLinux(int available) {
        return new Cores(cpus, NO_COMMANDS, available).count();
    }

    @Test
    void threadsOfOneCoreCountOnce() throws IOException {
        for (int i = 0; i < 8; i++) {
            cpu(i, i % 4 + "," + (i % 4 + 4));
        }
        Files.createDirectories(cpus.resolve("cpufreq").resolve("topology"));
        assertThat(onLinux(8)).isEqualTo(4);
    }

    @Test
    void coresWithOneThreadAllCount() throws IOException {
        for (int i = 0; i < 3; i++) {
            cpu(i, "" + i);
        }
        assertThat(onLinux(3)).isEqualTo(3);
    }

    @Test
    void neverMoreThanTheJvmMayUse() throws IOException {
        for (int i = 0; i < 16; i++) {
            cpu(i, "" + i);
        }
        assertThat(onLinux(2)).isEqualTo(2);
    }

    @Test
    void withoutSysfsLinuxUsesTheCoresOfTheJvm() {
        assertThat(onLinux(5)).isEqualTo(5);
        assertThat(new Cores(missing(), NO_COMMANDS, 6).count()).isEqualTo(6);
    }

    @Test
    void aMacUsesItsFastCores() {
        Function<List<String>, String> sysctl = command -> {
            assertThat(command).containsExactly("sysctl", "-n", "hw.perflevel0.physicalcpu");
            return "6\n";
        };
        assertThat(new Cores(missing(), sysctl, 10).count()).isEqualTo(6);
        assertThat(new Cores(missing(), command -> "", 10).count()).isEqualTo(10);
        assertThat(new Cores(missing(), NO_COMMANDS, 10).count()).isEqualTo(10);
    }

    @Test
    void otherSystemsUseTheCoresOfTheJvm() {
        assertThat(new Cores(missing(), NO_COMMANDS, 12).count()).isEqualTo(12);
    }
}
