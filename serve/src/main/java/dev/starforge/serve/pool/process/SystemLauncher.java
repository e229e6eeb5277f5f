package dev.starforge.serve.pool.process;

import dev.starforge.text.file.PrivateFiles;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * Starts processes of the operating system. Output goes to files: a pipe would break when the pool exits, and the worker with it. The
 * input is short enough to be in its pipe at once, which is then closed.
 *
 * <p>Pids are reused, so a process is identified by its start time as well. On Linux it is read from {@code /proc}, in ticks since boot,
 * with the boot id: {@link ProcessHandle.Info#startInstant} depends on the wall clock, so that setting the clock would change it.
 */
public final class SystemLauncher implements ProcessLauncher {
    private static final Path BOOT = Path.of("/proc/sys/kernel/random/boot_id");
    private static final int START_TIME = 19; // field 22 of stat, counted from the one after the name

    @Override
    public ChildProcess start(List<String> command, String input, Path log) throws IOException {
        Process process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(
                        ProcessBuilder.Redirect.appendTo(PrivateFiles.file(log).toFile()))
                .start();
        StartedProcess started = new StartedProcess(process, identity(process.toHandle()));
        try (OutputStream pipe = process.getOutputStream()) {
            pipe.write(input.getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            // a process that has exited already is reported by its exit code
        }
        return started;
    }

    @Override
    public Optional<ChildProcess> find(long pid, String identity) {
        return ProcessHandle.of(pid)
                .filter(handle -> pid != ProcessHandle.current().pid())
                .filter(handle -> !identity.isEmpty() && identity(handle).equals(identity))
                .map(handle -> new AdoptedProcess(handle, identity));
    }

    /** Empty for a process that has exited. */
    static String identity(ProcessHandle handle) {
        Path stat = Path.of("/proc", Long.toString(handle.pid()), "stat");
        if (!Files.isReadable(BOOT)) {
            return handle.info().startInstant().map(start -> "start " + start).orElse("");
        }
        try {
            String text = Files.readString(stat, StandardCharsets.ISO_8859_1);
            String[] fields = text.substring(text.lastIndexOf(')') + 2).split(" ");
            boolean dead = fields[0].equals("Z") || fields[0].equals("X");
            return dead ? "" : "boot " + Files.readString(BOOT).strip() + " tick " + fields[START_TIME];
        } catch (IOException e) {
            return "";
        }
    }

    private record StartedProcess(Process process, String identity) implements ChildProcess {
        @Override
        public long pid() {
            return process.pid();
        }

        @Override
        public Optional<ExitStatus> exit() {
            return process.isAlive() ? Optional.empty() : Optional.of(new ExitStatus(process.exitValue()));
        }

        @Override
        public boolean canTerminate() {
            return process.supportsNormalTermination();
        }

        @Override
        public void terminate() {
            process.destroy();
        }

        @Override
        public void kill() {
            process.destroyForcibly();
        }
    }

    private record AdoptedProcess(ProcessHandle handle, String identity) implements ChildProcess {
        @Override
        public long pid() {
            return handle.pid();
        }

        @Override
        public Optional<ExitStatus> exit() {
            return isSame() ? Optional.empty() : Optional.of(ExitStatus.UNKNOWN);
        }

        private boolean isSame() {
            return handle.isAlive() && SystemLauncher.identity(handle).equals(identity);
        }

        @Override
        public boolean canTerminate() {
            return handle.supportsNormalTermination();
        }

        @Override
        public void terminate() {
            if (isSame()) {
                handle.destroy();
            }
        }

        @Override
        public void kill() {
            if (isSame()) {
                handle.destroyForcibly();
            }
        }
    }
}
