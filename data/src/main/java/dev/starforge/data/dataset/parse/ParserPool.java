package dev.starforge.data.dataset.parse;

import dev.starforge.text.file.Hashes;
import java.io.DataInputStream;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.eclipse.jgit.lib.ObjectId;
import org.jspecify.annotations.Nullable;

/**
 * Parses source files in child processes, since grammars are native code. If a process crashes or times out on a file, that
 * file is split by braces and indentation and counted as guessed. After too many crashes no process is started any more. If
 * a process fails on an empty file too, the parser cannot run here, and an exception says so.
 */
public final class ParserPool implements AutoCloseable {
    private static final int MAX_CRASHES = 50;
    private static final int MAX_CACHED = 4096;
    private static final int MAX_CACHED_PARTS = 1 << 16;

    private final ParserStarter starter;
    private final Duration timeout;
    private final BlockingQueue<ParserSlot> idle;
    private final List<ParserSlot> slots = new ArrayList<>();
    private final ScheduledExecutorService watch = Executors.newSingleThreadScheduledExecutor(
            Thread.ofPlatform().daemon().name("parser-watch").factory());
    private final AtomicInteger parsed = new AtomicInteger();
    private final AtomicInteger guessed = new AtomicInteger();
    private final AtomicInteger crashes = new AtomicInteger();

    /** The outline of a blob depends on the language, and on whether blocks are requested. */
    private record OutlineKey(ObjectId blob, String asked) {}

    private final Map<OutlineKey, Outline> cached = recent(MAX_CACHED);

    /** A part of a file, identified by its hash. */
    private record PartOutlineKey(String asked, String hash) {}

    private final Map<PartOutlineKey, Outline> cachedParts = recent(MAX_CACHED_PARTS);

    /** A cache that evicts the least recently used outline. */
    private static <K> Map<K, Outline> recent(int size) {
        return new LinkedHashMap<>(256, 0.75f, true) {
            private static final long serialVersionUID = 1;

            @Override
            protected boolean removeEldestEntry(Map.Entry<K, Outline> eldest) {
                return size() > size;
            }
        };
    }

    public ParserPool(ParserStarter starter, int children, Duration timeout) {
        this.starter = starter;
        this.timeout = timeout;
        idle = new ArrayBlockingQueue<>(children);
        for (int i = 0; i < children; i++) {
            slots.add(new ParserSlot());
        }
        idle.addAll(slots);
    }

    /** A slot for one parser process, which is started when needed. */
    private final class ParserSlot {
        private @Nullable ParserProcess child;

        <T> T ask(String grammar, byte[] content, ParserProcess.ResponseReader<T> reading) throws IOException {
            ParserProcess asked = child;
            if (asked == null || !asked.isAlive()) {
                asked = new ParserProcess(starter.start());
                child = asked;
            }
            Future<?> limit = watch.schedule(asked::kill, timeout.toMillis(), TimeUnit.MILLISECONDS);
            try {
                return asked.ask(grammar, content, reading);
            } finally {
                if (!limit.cancel(false)) {
                    // the timeout may already have fired: do not reuse a process that is being killed
                    stop();
                }
            }
        }

        void stop() {
            if (child != null) {
                child.end();
                child = null;
            }
        }

        private String errorMessage() {
            try {
                return child == null ? "" : child.errorMessage();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                return "";
            }
        }

        /**
         * Checks that a new process parses an empty file. If it does, the failure before was caused by that file, and not by
         * this machine, where for example the unpacked libraries may not be executed.
         */
        void requireParser(String grammar) {
            try {
                ask(grammar, new byte[0], (in, _) -> in.readInt());
            } catch (IOException e) {
                String errors = errorMessage();
                stop();
                throw new ParserException(
                        "the parser for " + grammar.replaceFirst("^[+?]", "") + " fails on an empty file: "
                                + (errors.isEmpty() ? e.getMessage() == null ? "no answer" : e.getMessage() : errors),
                        e);
            }
        }
    }

    /** Reads an outline; the process is not trusted, so positions are checked against the file. */
    private static Outline outline(DataInputStream in, int length) throws IOException {
        int count = in.readInt();
        if (count < 0 || count > length + 1) {
            throw new IOException("the parser answers " + count + " symbols for " + length + " bytes");
        }
        List<Outline.Symbol> symbols = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            int kind = in.readByte();
            int from = in.readInt();
            int to = in.readInt();
            int body = in.readInt();
            int parent = in.readInt();
            String name = in.readUTF();
            if (kind < 0
                    || kind >= Outline.SymbolKind.values().length
                    || from < 0
                    || to < from
                    || to > length
                    || body > to
                    || parent >= i) {
                throw new IOException("the parser answers a symbol from " + from + " to " + to + " of " + length);
            }
            Outline.SymbolKind named = Outline.SymbolKind.values()[kind];
            symbols.add(new Outline.Symbol(named, name, from, to, body < from ? to : body, parent));
        }
        return new Outline(List.copyOf(symbols), true);
    }

    /** The outline of a file without blocks; by grammar if there is one. */
    public Outline outline(ObjectId blob, Language language, byte[] content) {
        return outline(blob, language, "", content);
    }

    /** The outline with blocks, which takes longer. */
    public Outline outlineWithBlocks(ObjectId blob, Language language, byte[] content) {
        return outline(blob, language, "+", content);
    }

    private Outline outline(ObjectId blob, Language language, String mark, byte[] content) {
        String asked = mark + language.grammar();
        OutlineKey key = new OutlineKey(blob, asked);
        synchronized (cached) {
            Outline known = cached.get(key);
            if (known != null) {
                return known;
            }
        }
        Outline outline = language.grammar().isEmpty()
                ? IndentSplitter.split(content)
                : parse(language.grammar(), asked, content);
        synchronized (cached) {
            cached.put(key, outline);
        }
        return outline;
    }

    /** Parses a large file part by part; parts that are in the cache from an earlier version are not parsed again. */
    Outline parse(String grammar, String asked, byte[] content) {
        List<TopLevelSplitter.FilePart> parts = TopLevelSplitter.parts(content, grammar);
        List<Outline.Symbol> symbols = new ArrayList<>();
        int[] declared = new int[parts.size()];
        boolean all = true;
        for (int i = 0; i < parts.size(); i++) {
            TopLevelSplitter.FilePart part = parts.get(i);
            byte[] text = part.text(content);
            Outline outline = parts.size() == 1 ? ask(asked, text) : cached(asked, text);
            int container = part.container() < 0 ? -1 : declared[part.container()];
            declared[i] = part.place(outline, symbols, container);
            all &= outline.parsed();
        }
        (all ? parsed : guessed).incrementAndGet();
        return new Outline(List.copyOf(symbols), all);
    }

    private Outline cached(String asked, byte[] text) {
        PartOutlineKey key = new PartOutlineKey(asked, Hashes.sha256(text));
        synchronized (cachedParts) {
            Outline known = cachedParts.get(key);
            if (known != null) {
                return known;
            }
        }
        Outline outline = ask(asked, text);
        synchronized (cachedParts) {
            cachedParts.put(key, outline);
        }
        return outline;
    }

    Outline ask(String asked, byte[] text) {
        return ask(asked, text, ParserPool::outline).orElseGet(() -> IndentSplitter.split(text));
    }

    /** The number of syntax errors; empty if no process can tell. */
    OptionalInt errors(String grammar, byte[] content) {
        return ask("?" + grammar, content, (in, length) -> in.readInt())
                .filter(count -> count >= 0)
                .map(OptionalInt::of)
                .orElse(OptionalInt.empty());
    }

    private <T> Optional<T> ask(String grammar, byte[] content, ParserProcess.ResponseReader<T> reading) {
        if (crashes.get() >= MAX_CRASHES) {
            return Optional.empty();
        }
        ParserSlot slot = take();
        try {
            return Optional.of(slot.ask(grammar, content, reading));
        } catch (IOException died) {
            slot.stop();
            crashes.incrementAndGet();
            slot.requireParser(grammar);
            return Optional.empty();
        } finally {
            idle.add(slot);
        }
    }

    private ParserSlot take() {
        try {
            return idle.take();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", interrupted);
        }
    }

    /** The number of files that a grammar parsed. */
    public int parsed() {
        return parsed.get();
    }

    /** The number of files of a language with a grammar that were split without it. */
    public int guessed() {
        return guessed.get();
    }

    @Override
    public void close() {
        watch.shutdownNow();
        slots.forEach(ParserSlot::stop);
        starter.close();
    }
}
