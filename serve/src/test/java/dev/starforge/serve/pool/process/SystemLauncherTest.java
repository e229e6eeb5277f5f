package dev.starforge.serve.pool.process;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

@DisabledOnOs(OS.WINDOWS)
final class SystemLauncherTest {
    @TempDir
    private Path folder;

    private final SystemLauncher launcher = new SystemLauncher();

    private static ExitStatus end(ChildProcess child) throws InterruptedException {
        long begin = System.nanoTime();
        while (child.exit().isEmpty()) {
            assertThat(System.nanoTime() - begin).isLessThan(20_000_000_000L);
            Thread.sleep(2);
        }
        return child.exit().orElseThrow();
    }

    private ChildProcess sh(String script) throws IOException {
        return launcher.start(List.of("/bin/sh", "-c", script), "", folder.resolve("log"));
    }

    @Test
    void aProcessIsFoundAgainByItsPidAndItsStartAlone() throws Exception {
        ChildProcess child = sh("exec sleep 60");
        assertThat(launcher.find(child.pid(), child.identity() + "0"))
                .as("a stranger")
                .isEmpty();
        assertThat(launcher.find(child.pid(), "")).isEmpty();
        ProcessHandle self = ProcessHandle.current();
        assertThat(launcher.find(self.pid(), SystemLauncher.identity(self)))
                .as("never ourselves")
                .isEmpty();
        ChildProcess found = launcher.find(child.pid(), child.identity()).orElseThrow();
        assertThat(found.exit()).isEmpty();
        found.kill();
        assertThat(end(found)).as("only the parent process gets the exit code").isEqualTo(ExitStatus.UNKNOWN);
        assertThat(end(child).text()).isEqualTo("137: out of memory (SIGKILL)");
        assertThat(launcher.find(child.pid(), child.identity())).isEmpty();
        found.kill(); // the pid may be another's by now
    }

    @Test
    void outputGoesToTheLogAndCodesComeBack() throws Exception {
        assertThat(end(sh("echo one; echo two >&2; exit 3"))).isEqualTo(new ExitStatus(ExitStatus.MODEL_REFUSED));
        end(sh("echo three"));
        assertThat(Files.readString(folder.resolve("log"))).isEqualTo("one\ntwo\nthree\n");
        assertThatThrownBy(() -> launcher.start(List.of("/no/such/program"), "", folder.resolve("log")))
                .isInstanceOf(IOException.class);
    }

    @Test
    void theInputIsReadByTheProcessAlone() throws Exception {
        Path log = folder.resolve("log");
        ChildProcess child = launcher.start(List.of("/bin/cat"), "secret\n", log);
        assertThat(end(child)).isEqualTo(new ExitStatus(0));
        assertThat(Files.readString(log)).isEqualTo("secret\n");
        assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(log)))
                .isEqualTo("rw-------");
    }

    @Test
    void commandsReturnOutputOrTimeOut() throws Exception {
        CommandRunner commands = CommandRunner.ofSystem();
        assertThat(commands.run(List.of("/bin/sh", "-c", "echo yes; echo no >&2; exit 4"), Duration.ofSeconds(20)))
                .isEqualTo(new CommandRunner.CommandOutput(4, "yes\n", "no\n"));
        assertThatThrownBy(() -> commands.run(List.of("/bin/sleep", "60"), Duration.ofMillis(50)))
                .hasMessageContaining("did not exit within");
    }
}
