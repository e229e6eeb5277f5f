package dev.starforge.serve.pool.process;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Runs a short command and captures its output. */
@FunctionalInterface
public interface CommandRunner {
    int MAX_OUTPUT = 4 << 20;

    /** @param code exit code; 0 is success */
    record CommandOutput(int code, String out, String err) {
        /** The last line of stderr. */
        public String reason() {
            return err.lines()
                    .filter(line -> !line.isBlank())
                    .reduce((_, last) -> last)
                    .orElse("exit code " + code);
        }
    }

    /** @throws IOException if it cannot be started, or does not exit in time */
    CommandOutput run(List<String> command, Duration timeout) throws IOException, InterruptedException;

    /** Runs commands of the operating system. */
    static CommandRunner ofSystem() {
        return (command, timeout) -> {
            Process process = new ProcessBuilder(command).start();
            try {
                process.getOutputStream().close();
                CompletableFuture<String> out = reading(process.getInputStream());
                CompletableFuture<String> err = reading(process.getErrorStream());
                if (!process.waitFor(timeout.toMillis(), TimeUnit.MILLISECONDS)) {
                    throw new IOException(command.getFirst() + ": did not exit within " + timeout.toSeconds() + " s");
                }
                return new CommandOutput(process.exitValue(), out.join(), err.join());
            } finally {
                process.destroyForcibly();
            }
        };
    }

    private static CompletableFuture<String> reading(InputStream in) {
        CompletableFuture<String> text = new CompletableFuture<>();
        Thread.ofVirtual().start(() -> text.complete(text(in)));
        return text;
    }

    private static String text(InputStream in) {
        try (in) {
            return new String(in.readNBytes(MAX_OUTPUT), StandardCharsets.UTF_8);
        } catch (IOException closed) {
            return "";
        }
    }
}
