package dev.starforge.serve.page;

import dev.starforge.serve.api.Call;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * A live feed of named values and of a growing file of JSON lines, as server-sent events. Each watcher reads the file from the
 * beginning, so that nothing is buffered. Streams end after {@link #end}.
 */
public final class LiveFeed {
    private static final int READ_SIZE = 1 << 20;

    private final Duration pollInterval;
    private final ObjectNode values = Jackson.object();
    private Optional<Path> lines = Optional.empty();
    private long version;
    private boolean ended;

    /** @param pollInterval how often the file is read */
    public LiveFeed(Duration pollInterval) {
        this.pollInterval = pollInterval;
    }

    public synchronized void set(String name, JsonNode value) {
        values.set(name, value);
        version++;
        notifyAll();
    }

    /** Sends the lines of this file. */
    public synchronized void follow(Path file) {
        lines = Optional.of(file);
        notifyAll();
    }

    /** Ends all streams. */
    public synchronized void end() {
        ended = true;
        notifyAll();
    }

    /** Snapshot of the feed. */
    private record Snapshot(long version, String values, Optional<Path> lines, boolean ended) {}

    /** The state, at once if it has changed since {@code seen}, else after the poll interval. */
    private synchronized Snapshot next(long seen) throws InterruptedException {
        long until = System.nanoTime() + pollInterval.toNanos();
        for (long left = pollInterval.toMillis();
                version == seen && !ended && left > 0;
                left = (until - System.nanoTime()) / 1_000_000) {
            wait(left);
        }
        return new Snapshot(version, values.toString(), lines, ended);
    }

    /** Server-sent events: {@code {"values": {...}}} when one has changed, {@code {"lines": [...]}}, and {@code [DONE]} at the end. */
    public void stream(Call call) throws IOException, InterruptedException {
        AtomicBoolean disconnected = new AtomicBoolean();
        call.onDisconnect(() -> disconnected.set(true));
        Call.Events events = call.events();
        long seen = -1;
        long read = 0;
        boolean more = true;
        while (more && !disconnected.get()) {
            Snapshot snapshot = next(seen);
            read += snapshot.lines().isPresent()
                    ? sendLines(events, snapshot.lines().get(), read)
                    : 0;
            if (snapshot.version() != seen) {
                events.send("{\"values\":" + snapshot.values() + "}");
            }
            seen = snapshot.version();
            more = !snapshot.ended();
        }
        events.send("[DONE]");
        events.finish();
    }

    /** Sends the complete lines of a file from an offset; returns their number of bytes. */
    private static long sendLines(Call.Events events, Path file, long from) throws IOException {
        long sent = 0;
        if (!Files.exists(file)) {
            return 0;
        }
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ);
                InputStream in = Channels.newInputStream(channel)) {
            channel.position(from);
            byte[] chunk = in.readNBytes(READ_SIZE);
            for (int whole = lastEnd(chunk); whole >= 0; whole = lastEnd(chunk)) {
                String joined = new String(chunk, 0, whole, StandardCharsets.UTF_8).replace('\n', ',');
                events.send("{\"lines\":[" + joined + "]}");
                sent += whole + 1;
                channel.position(from + sent);
                chunk = in.readNBytes(READ_SIZE);
            }
        }
        return sent;
    }

    /** The index of the last line feed; -1 if there is none. */
    private static int lastEnd(byte[] chunk) {
        int at = chunk.length - 1;
        while (at >= 0 && chunk[at] != '\n') {
            at--;
        }
        return at;
    }
}
