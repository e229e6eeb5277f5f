package dev.starforge.serve;

import dev.starforge.model.generate.StopReason;
import dev.starforge.serve.engine.AdapterCard;
import dev.starforge.serve.engine.EngineException;
import dev.starforge.serve.engine.EngineStatus;
import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.engine.SequenceHandle;
import dev.starforge.serve.engine.TokenSink;
import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.text.template.ChatTemplate;
import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * An engine that says a given text to every prompt, token by token in steps over all its sequences, and that can be slowed,
 * held before a token, filled up and made to fail. It keeps count of KV blocks as a real one would.
 */
public final class FakeEngine implements InferenceEngine, AutoCloseable {
    static final Tokenizer TOKENIZER =
            Tokenizer.read(Path.of("..", "golden", "tokenizers", "starcoder2", "tokenizer.json"));
    static final int CONTEXT = 4096;
    private static final int BLOCK = 16;
    private static final int SLOTS = 32;
    private static final int BLOCKS = 4096;
    private static final String TEMPLATE = "{% if tools %}{{ tools | tojson }}\n"
            + "{% endif %}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n"
            + "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

    public final List<GenerationRequest> requests = new CopyOnWriteArrayList<>();
    private final List<Sequence> sequences = new ArrayList<>();
    private final List<AdapterCard> adapters = new CopyOnWriteArrayList<>();
    private final ModelCard card;
    private final Thread thread;
    private int[] reply = TOKENIZER.encode("Hello, world! This is a reply.", false);
    private Duration step = Duration.ZERO;
    private int hold = Integer.MAX_VALUE;
    private int failAt = Integer.MAX_VALUE;
    private FinishReason.FailureKind failure = FinishReason.FailureKind.INFERENCE_FAILED;
    private boolean full;
    private boolean neverFits;
    private boolean dead;
    private boolean closed;
    private boolean embeddingsHang;
    private int computed;
    private int cancels;
    private int hangingEmbeddings;
    private volatile EngineStatus status = new EngineStatus(true, 0, 0, SLOTS, 0, 123_456, 100, 40, 3);

    public FakeEngine() {
        this(true, ToolFormat.NONE);
    }

    FakeEngine(boolean chats, ToolFormat tools) {
        this("fake", chats, tools);
    }

    FakeEngine(String name, boolean chats, ToolFormat tools) {
        this(name, chats, tools, List.of());
    }

    FakeEngine(String name, boolean chats, ToolFormat tools, List<String> aliases) {
        this(name, "", Optional.empty(), chats, tools, aliases);
    }

    /** A tuned model, whose adapter is to be loaded under its name, and its base. */
    static FakeEngine tuned(String name, String base, ModelCard.SamplePrompt sample) {
        return new FakeEngine(name, base, Optional.of(sample), false, ToolFormat.NONE, List.of());
    }

    private FakeEngine(
            String name,
            String base,
            Optional<ModelCard.SamplePrompt> sample,
            boolean chats,
            ToolFormat tools,
            List<String> aliases) {
        Optional<ChatTemplate> template =
                chats ? Optional.of(ChatTemplate.parse(Path.of("template"), TEMPLATE, Map.of())) : Optional.empty();
        card = new ModelCard(
                name,
                base,
                "starcoder2",
                "Q4_K",
                TOKENIZER.size(),
                CONTEXT,
                "cpu",
                Instant.ofEpochSecond(1_700_000_000),
                TOKENIZER,
                template,
                tools,
                aliases,
                sample);
        thread = Thread.ofPlatform().name("fake engine").daemon().start(this::run);
    }

    synchronized FakeEngine reply(String text) {
        reply = TOKENIZER.encode(text, false);
        return this;
    }

    /** Every step takes so long. */
    public synchronized FakeEngine step(Duration time) {
        step = time;
        return this;
    }

    /** No sequence gets its token of this index before {@link #release}. */
    synchronized FakeEngine hold(int index) {
        hold = index;
        return this;
    }

    synchronized void release() {
        hold = Integer.MAX_VALUE;
        notifyAll();
    }

    synchronized FakeEngine failAt(int index, FinishReason.FailureKind kind) {
        failAt = index;
        failure = kind;
        return this;
    }

    synchronized FakeEngine full(boolean value) {
        full = value;
        return this;
    }

    synchronized FakeEngine neverFits(boolean value) {
        neverFits = value;
        return this;
    }

    synchronized FakeEngine embeddingsHang() {
        embeddingsHang = true;
        return this;
    }

    /** Stops the engine thread, as after a fault. */
    synchronized void die(boolean noticed) {
        closed = true;
        dead = noticed;
        publish();
        notifyAll();
    }

    /** Tokens computed for all sequences ever. */
    synchronized int computed() {
        return computed;
    }

    synchronized int cancels() {
        return cancels;
    }

    synchronized int hangingEmbeddings() {
        return hangingEmbeddings;
    }

    public synchronized int live() {
        return sequences.size();
    }

    private final class Sequence {
        private final GenerationRequest request;
        private final TokenSink sink;
        private int tokens;
        private boolean cancelled;

        Sequence(GenerationRequest request, TokenSink sink) {
            this.request = request;
            this.sink = sink;
        }

        int blocks() {
            return (request.prompt().length + tokens + BLOCK - 1) / BLOCK;
        }

        boolean isHeld() {
            return !cancelled && tokens >= hold;
        }

        /** One token; how it ended, if it did. */
        Optional<FinishReason> step() {
            if (cancelled) {
                return Optional.of(new FinishReason.Cancelled());
            }
            if (tokens == failAt) {
                return Optional.of(new FinishReason.EngineFailed(failure, "as the test wants it, at /secret/path"));
            }
            if (tokens == request.maxTokens()) {
                return Optional.of(new FinishReason.Completed(StopReason.MAX_TOKENS, 2));
            }
            if (tokens == reply.length) {
                return Optional.of(new FinishReason.Completed(StopReason.EOS, 2));
            }
            computed++;
            boolean more = sink.token(token(reply[tokens++]));
            return more ? Optional.empty() : Optional.of(new FinishReason.Completed(StopReason.STOP_SEQUENCE, 2));
        }

        private GeneratedToken token(int id) {
            List<GeneratedToken.TopLogprob> top = new ArrayList<>();
            for (int i = 0; i < request.logprobs(); i++) {
                top.add(new GeneratedToken.TopLogprob(id + i, -0.5f - i));
            }
            return new GeneratedToken(id, request.logprobs() < 0 ? 0 : -0.5f, top);
        }
    }

    private void run() {
        try {
            while (true) {
                Duration time;
                synchronized (this) {
                    while (!closed && sequences.stream().allMatch(Sequence::isHeld)) {
                        wait();
                    }
                    if (closed) {
                        return;
                    }
                    time = step;
                }
                Thread.sleep(time);
                synchronized (this) {
                    sequences.removeIf(sequence -> {
                        Optional<FinishReason> reason = sequence.isHeld() ? Optional.empty() : sequence.step();
                        reason.ifPresent(sequence.sink::end);
                        return reason.isPresent();
                    });
                    publish();
                    notifyAll();
                }
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public ModelCard card() {
        return card;
    }

    /** The state after the last step; does not wait for the next. */
    @Override
    public EngineStatus status() {
        return status;
    }

    private void publish() {
        int blocks = sequences.stream().mapToInt(Sequence::blocks).sum();
        status = new EngineStatus(
                !dead, sequences.size(), 0, SLOTS - sequences.size(), (double) blocks / BLOCKS, 123_456, 100, 40, 3);
    }

    @Override
    public synchronized SequenceHandle submit(GenerationRequest request, TokenSink sink) {
        if (full) {
            throw new EngineException(
                    EngineException.EngineErrorKind.QUEUE_FULL, "the queue is full", Duration.ofSeconds(7));
        }
        if (neverFits) {
            throw new EngineException(EngineException.EngineErrorKind.NEVER_FITS, "what fits into the KV memory");
        }
        requests.add(request);
        Sequence sequence = new Sequence(request, sink);
        sequences.add(sequence);
        publish();
        notifyAll();
        return () -> cancel(sequence);
    }

    private synchronized void cancel(Sequence sequence) {
        if (!sequence.cancelled && sequences.contains(sequence)) {
            sequence.cancelled = true;
            cancels++;
            notifyAll();
        }
    }

    @Override
    public boolean takesAdapters() {
        return true;
    }

    @Override
    public CompletableFuture<List<float[]>> embed(List<int[]> inputs, String adapter) {
        CompletableFuture<List<float[]>> future = new CompletableFuture<>();
        synchronized (this) {
            if (embeddingsHang) {
                hangingEmbeddings++;
                var _ = future.whenComplete((_, _) -> {
                    synchronized (this) {
                        hangingEmbeddings--;
                    }
                });
                return future;
            }
        }
        future.complete(inputs.stream()
                .map(tokens -> new float[] {0.6f, 0.8f, 0, tokens.length})
                .toList());
        return future;
    }

    @Override
    public List<AdapterCard> adapters() {
        return adapters;
    }

    @Override
    public void loadAdapter(String name, Path folder) {
        if (adapters.stream().anyMatch(adapter -> adapter.name().equals(name))) {
            throw new EngineException(
                    EngineException.EngineErrorKind.ADAPTER_EXISTS, "an adapter of this name is loaded");
        }
        if (!Files.exists(folder.resolve("adapter_config.json"))) {
            throw new EngineException(
                    EngineException.EngineErrorKind.ADAPTER_UNUSABLE, "expected adapter_config.json in the folder");
        }
        adapters.add(new AdapterCard(name, Instant.ofEpochSecond(1_700_000_001)));
    }

    @Override
    public void unloadAdapter(String name) {
        if (!adapters.removeIf(adapter -> adapter.name().equals(name))) {
            throw new EngineException(
                    EngineException.EngineErrorKind.UNKNOWN_ADAPTER, "no adapter of this name is loaded");
        }
    }

    @Override
    public void close() {
        die(false);
        try {
            thread.join();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }
}
