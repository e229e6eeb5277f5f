package dev.starforge.cli.process;

import dev.starforge.cli.output.Escaped;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * Removes partial output on Ctrl-C. Work that calls {@link #check} stops with an exception and cleans up; if it does not stop in
 * time, the shutdown hook cleans up while it still runs.
 */
public final class ShutdownCleanup implements AutoCloseable {
    private static final int ATTEMPTS = 20;

    private final Duration patience;
    private final Runnable clearUp;
    private final String said;
    private final PrintWriter err;
    private final CountDownLatch over = new CountDownLatch(1);
    private final Thread hook = Thread.ofPlatform().unstarted(this::interrupt);
    private volatile boolean wanted;
    private volatile boolean finished;

    /** Thrown by {@link #check} after an interrupt. */
    public static final class Interrupted extends RuntimeException {
        private static final long serialVersionUID = 1;

        Interrupted(String message) {
            super(message);
        }
    }

    /** Registers the cleanup until it is closed. */
    public static ShutdownCleanup watch(Duration patience, Runnable clearUp, String said, PrintWriter err) {
        ShutdownCleanup interruption = new ShutdownCleanup(patience, clearUp, said, err);
        Runtime.getRuntime().addShutdownHook(interruption.hook);
        return interruption;
    }

    /** Removes the partial files of {@code out} on an interrupt. */
    public static ShutdownCleanup removing(Path out, PrintWriter err) {
        String name = out.getFileName().toString();
        Stream<String> partial = Stream.of(name, ".partial-" + name, ".partial-" + name + ".gguf");
        List<Path> left = partial.flatMap(each -> Stream.of(each, each + ".partial"))
                .filter(each -> !each.equals(name))
                .map(out::resolveSibling)
                .toList();
        return watch(
                Duration.ZERO,
                () -> left.forEach(ShutdownCleanup::remove),
                "interrupted; " + out + " was not written",
                err);
    }

    /** Removes a file or folder, with retries if files are added at the same time. */
    public static void remove(Path path) {
        for (int i = 0; i < ATTEMPTS && Files.exists(path, LinkOption.NOFOLLOW_LINKS); i++) {
            try (Stream<Path> tree = Files.walk(path)) {
                for (Path each : tree.sorted(Comparator.reverseOrder()).toList()) {
                    Files.deleteIfExists(each);
                }
            } catch (IOException | UncheckedIOException changed) {
                continue; // a file was added; retry
            }
        }
    }

    private ShutdownCleanup(Duration patience, Runnable clearUp, String said, PrintWriter err) {
        this.patience = patience;
        this.clearUp = clearUp;
        this.said = said;
        this.err = err;
    }

    /** Throws if the process was interrupted. */
    public void check() {
        if (wanted) {
            throw new Interrupted(said);
        }
    }

    /** Marks the output as complete; a later signal does not remove it. */
    public void finished() {
        finished = true;
    }

    /** Runs in the shutdown hook. */
    void interrupt() {
        if (over.getCount() == 0) {
            return;
        }
        wanted = true;
        try {
            if (!over.await(patience.toMillis(), TimeUnit.MILLISECONDS)) {
                clearUp.run();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (!finished) {
            err.println("starforge: " + Escaped.of(said));
            err.flush();
        }
    }

    @Override
    public void close() {
        over.countDown();
        if (!wanted) {
            try {
                Runtime.getRuntime().removeShutdownHook(hook);
            } catch (IllegalStateException ending) {
                return; // the JVM is already shutting down
            }
        }
    }
}
