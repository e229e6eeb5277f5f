package dev.starforge.data.dataset.parse;

import dev.starforge.text.file.Hashes;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
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
 * Asks child processes what a source file declares, since grammars are native code. A child that dies of a file, or takes
 * too long, takes only that file with it: the file is split by braces and indentation, and counted. Children that die too
 * often are not started again.
 */
public final class ParserPool implements AutoCloseable {
    private static final int MOST_DEATHS = 50;
    private static final int REMEMBERED = 4096;
    private static final int REMEMBERED_PARTS = 1 << 16;

    private final ParserStarter starter;
    private final Duration patience;
    private final BlockingQueue<ParserSlot> idle;
    private final List<ParserSlot> slots = new ArrayList<>();
    private final ScheduledExecutorService watch = Executors.newSingleThreadScheduledExecutor(
            Thread.ofPlatform().daemon().name("parser-watch").factory());
    private final AtomicInteger parsed = new AtomicInteger();
    private final AtomicInteger guessed = new AtomicInteger();
    private final AtomicInteger deaths = new AtomicInteger();

    /** The same bytes are another outline in another language, and with blocks. */
    private record OutlineKey(ObjectId blob, String asked) {}

    private final Map<OutlineKey, Outline> remembered = recent(REMEMBERED);

    /** A part of a file, by its text. */
    private record PartOutlineKey(String asked, String hash) {}

    private final Map<PartOutlineKey, Outline> rememberedParts = recent(REMEMBERED_PARTS);

    /** A map that forgets what was not asked for the longest. */
    private static <K> Map<K, Outline> recent(int size) {
        return new LinkedHashMap<>(256, 0.75f, true) {
            private static final long serialVersionUID = 1;

            @Override
            protected boolean removeEldestEntry(Map.Entry<K, Outline> eldest) {
                return size() > size;
            }
        };
    }

    public ParserPool(ParserStarter starter, int children, Duration patience) {
        this.starter = starter;
        this.patience = patience;
        idle = new ArrayBlockingQueue<>(children);
        for (int i = 0; i < children; i++) {
            slots.add(new ParserSlot());
        }
        idle.addAll(slots);
    }

    /** What a child says of a text of so many bytes. */
    private interface ResponseReader<T> {
        T read(DataInputStream in, int length) throws IOException;
    }

    /** A parser, and the pipes to it. */
    private static final class ParserProcess {
        private final Process process;
        private final DataInputStream in;
        private final DataOutputStream out;

        ParserProcess(Process process) {
            this.process = process;
            in = new DataInputStream(new BufferedInputStream(process.getInputStream(), 1 << 16));
            out = new DataOutputStream(new BufferedOutputStream(process.getOutputStream(), 1 << 16));
        }
    }

    /** One child, or the place for one. */
    private final class ParserSlot {
        private @Nullable ParserProcess child;

        <T> T ask(String grammar, byte[] content, ResponseReader<T> reading) throws IOException {
            ParserProcess asked = child;
            if (asked == null || !asked.process.isAlive()) {
                asked = new ParserProcess(starter.start());
                child = asked;
            }
            Future<?> limit =
                    watch.schedule(asked.process::destroyForcibly, patience.toMillis(), TimeUnit.MILLISECONDS);
            try {
                byte[] name = grammar.getBytes(StandardCharsets.UTF_8);
                asked.out.writeInt(name.length);
                asked.out.write(name);
                asked.out.writeInt(content.length);
                asked.out.write(content);
                asked.out.flush();
                return reading.read(asked.in, content.length);
            } finally {
                if (!limit.cancel(false)) {
                    // time ran out, if only just: the next file must not meet a child that is about to die
                    stop();
                }
            }
        }

        void stop() {
            if (child != null) {
                child.process.destroyForcibly().onExit().join();
                child = null;
            }
        }
    }

    /** A child is not trusted: what it says must fit the file. */
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

    /** The outline of a file, by grammar where there is one, without blocks. */
    public Outline outline(ObjectId blob, Language language, byte[] content) {
        return outline(blob, language, "", content);
    }

    /** With blocks, which take the child some time to tell. */
    public Outline outlineWithBlocks(ObjectId blob, Language language, byte[] content) {
        return outline(blob, language, "+", content);
    }

    private Outline outline(ObjectId blob, Language language, String mark, byte[] content) {
        String asked = mark + language.grammar();
        OutlineKey key = new OutlineKey(blob, asked);
        synchronized (remembered) {
            Outline known = remembered.get(key);
            if (known != null) {
                return known;
            }
        }
        Outline outline = language.grammar().isEmpty()
                ? IndentSplitter.split(content)
                : parse(language.grammar(), asked, content);
        synchronized (remembered) {
            remembered.put(key, outline);
        }
        return outline;
    }

    /** Part by part, if the file is large; parts that an earlier version had too are not parsed again. */
    Outline parse(String grammar, String asked, byte[] content) {
        List<TopLevelSplitter.FilePart> parts = TopLevelSplitter.parts(content, grammar);
        List<Outline.Symbol> symbols = new ArrayList<>();
        int[] declared = new int[parts.size()];
        boolean all = true;
        for (int i = 0; i < parts.size(); i++) {
            TopLevelSplitter.FilePart part = parts.get(i);
            byte[] text = part.text(content);
            Outline outline = parts.size() == 1 ? ask(asked, text) : remembered(asked, text);
            int container = part.container() < 0 ? -1 : declared[part.container()];
            declared[i] = part.place(outline, symbols, container);
            all &= outline.parsed();
        }
        (all ? parsed : guessed).incrementAndGet();
        return new Outline(List.copyOf(symbols), all);
    }

    private Outline remembered(String asked, byte[] text) {
        PartOutlineKey key = new PartOutlineKey(asked, Hashes.sha256(text));
        synchronized (rememberedParts) {
            Outline known = rememberedParts.get(key);
            if (known != null) {
                return known;
            }
        }
        Outline outline = ask(asked, text);
        synchronized (rememberedParts) {
            rememberedParts.put(key, outline);
        }
        return outline;
    }

    Outline ask(String asked, byte[] text) {
        return ask(asked, text, ParserPool::outline).orElseGet(() -> IndentSplitter.split(text));
    }

    /** How many places of a text do not fit a grammar; empty where no child can tell. */
    OptionalInt errors(String grammar, byte[] content) {
        return ask("?" + grammar, content, (in, length) -> in.readInt())
                .filter(count -> count >= 0)
                .map(OptionalInt::of)
                .orElse(OptionalInt.empty());
    }

    private <T> Optional<T> ask(String grammar, byte[] content, ResponseReader<T> reading) {
        if (deaths.get() >= MOST_DEATHS) {
            return Optional.empty();
        }
        ParserSlot slot = take();
        try {
            return Optional.of(slot.ask(grammar, content, reading));
        } catch (IOException died) {
            slot.stop();
            deaths.incrementAndGet();
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

    /** Files that a grammar has read. */
    public int parsed() {
        return parsed.get();
    }

    /** Files that have a grammar, but were split without it. */
    public int guessed() {
        return guessed.get();
    }

    @Override
    public void close() {
        watch.shutdownNow();
        slots.forEach(ParserSlot::stop);
    }
}
