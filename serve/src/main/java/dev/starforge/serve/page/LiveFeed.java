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
 * What goes on, for whoever watches: a few values of which the latest counts, and a file of JSON lines that grows. Each watcher
 * reads the file for itself from the beginning, so one who comes late sees all of it, and nothing is kept in memory for those
 * who never come. Streams end when everything was said after {@link #end}.
 */
public final class LiveFeed {
    private static final int PIECE = 1 << 20;

    private final Duration look;
    private final ObjectNode values = Jackson.object();
    private Optional<Path> lines = Optional.empty();
    private long version;
    private boolean ended;

    /** @param look how often the file is looked at */
    public LiveFeed(Duration look) {
        this.look = look;
    }

    public synchronized void set(String name, JsonNode value) {
        values.set(name, value);
        version++;
        notifyAll();
    }

    /** Lines of this file are sent from now on. */
    public synchronized void follow(Path file) {
        lines = Optional.of(file);
        notifyAll();
    }

    /** There will be no more. */
    public synchronized void end() {
        ended = true;
        notifyAll();
    }

    /** A moment of the feed. */
    private record Now(long version, String values, Optional<Path> lines, boolean ended) {}

    /** What is there, at once if there is news and else after a while. */
    private synchronized Now next(long seen) throws InterruptedException {
        long until = System.nanoTime() + look.toNanos();
        for (long left = look.toMillis();
                version == seen && !ended && left > 0;
                left = (until - System.nanoTime()) / 1_000_000) {
            wait(left);
        }
        return new Now(version, values.toString(), lines, ended);
    }

    /** Server-sent events: {@code {"values": {...}}} when one has changed, {@code {"lines": [...]}}, and {@code [DONE]} at the end. */
    public void stream(Call call) throws IOException, InterruptedException {
        AtomicBoolean gone = new AtomicBoolean();
        call.onDisconnect(() -> gone.set(true));
        Call.Events events = call.events();
        long seen = -1;
        long read = 0;
        boolean more = true;
        while (more && !gone.get()) {
            Now now = next(seen);
            read += now.lines().isPresent() ? sendLines(events, now.lines().get(), read) : 0;
            if (now.version() != seen) {
                events.send("{\"values\":" + now.values() + "}");
            }
            seen = now.version();
            more = !now.ended();
        }
        events.send("[DONE]");
        events.finish();
    }

    /** Sends the whole lines that a file has from an offset on; how many bytes that were. */
    private static long sendLines(Call.Events events, Path file, long from) throws IOException {
        long sent = 0;
        if (!Files.exists(file)) {
            return 0;
        }
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ);
                InputStream in = Channels.newInputStream(channel)) {
            channel.position(from);
            byte[] piece = in.readNBytes(PIECE);
            for (int whole = lastEnd(piece); whole >= 0; whole = lastEnd(piece)) {
                String joined = new String(piece, 0, whole, StandardCharsets.UTF_8).replace('\n', ',');
                events.send("{\"lines\":[" + joined + "]}");
                sent += whole + 1;
                channel.position(from + sent);
                piece = in.readNBytes(PIECE);
            }
        }
        return sent;
    }

    /** Where the last whole line ends; -1 where there is none. */
    private static int lastEnd(byte[] piece) {
        int at = piece.length - 1;
        while (at >= 0 && piece[at] != '\n') {
            at--;
        }
        return at;
    }
}
