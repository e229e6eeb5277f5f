package dev.starforge.serve.scheduler;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.SamplingParams;
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
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.text.tokenizer.HealedPrompt;
import java.nio.file.Path;
import java.time.InstantSource;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * Serves a model to many at once (continuous batching, Yu et al. 2022): one thread owns device, weights and cache, and runs
 * step after step of what {@link Batcher} decides. Other threads leave commands in a queue and read a status that each step
 * leaves behind; none of them waits for a step, but for who loads an adapter.
 */
public final class Scheduler implements InferenceEngine, AutoCloseable {
    private static final int WARM_UP_PROMPT = 64;
    private static final int WARM_UP_TOKENS = 4;
    private static final int FIRST_BATCH = 16;

    private final int places;
    private final LongSupplier nanos;
    private final InstantSource clock;
    private final Thread thread;
    private final ConcurrentLinkedQueue<Runnable> commands = new ConcurrentLinkedQueue<>();
    private final Semaphore signal = new Semaphore(0);
    private final AtomicInteger taken = new AtomicInteger();
    private final CompletableFuture<Served> loading = new CompletableFuture<>();
    private volatile EngineStatus status = new EngineStatus(true, 0, 0, 0, 0, 0, 0, 0, 0);
    private volatile boolean closed;
    private volatile Optional<Throwable> failure = Optional.empty();
    private boolean ended; // with the lock of the commands: none is taken any more

    private record Served(ServedModel model, Batcher batcher, AdapterSet adapters) {}

    private Scheduler(Callable<ServedModel> loader, int places, LongSupplier nanos, InstantSource clock) {
        this.places = places;
        this.nanos = nanos;
        this.clock = clock;
        thread = Thread.ofPlatform().name("engine").unstarted(() -> run(loader));
    }

    /**
     * Loads a model on the engine's thread, and begins to serve it.
     *
     * @param places requests that may be there at once, waiting ones included
     * @param nanos the clock that pieces of prompts are sized by
     */
    public static Scheduler start(Callable<ServedModel> loader, int places, LongSupplier nanos, InstantSource clock)
            throws Exception {
        Scheduler scheduler = new Scheduler(loader, places, nanos, clock);
        scheduler.thread.start();
        try {
            scheduler.loading.get();
            return scheduler;
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof Exception cause ? cause : failed;
        }
    }

    private Served served() {
        return loading.join();
    }

    /**
     * Computes a prompt and some tokens, so that what is compiled, recorded or read on first use is there before anybody
     * waits for it, and a model that cannot answer is never ready. On a GPU batches of each size have kernels of their own, which
     * all texts that run would wait for.
     */
    public void warmUp() {
        expectTokens(List.of(warmUpText(WARM_UP_PROMPT)));
        ServedModel model = served().model;
        int most = model.engine().asynchronous() ? Math.min(model.sequences(), places) : 0;
        for (int batch = FIRST_BATCH; batch <= most; batch *= 2) {
            Stream<CompletableFuture<FinishReason>> texts =
                    Stream.generate(() -> warmUpText(1)).limit(batch);
            expectTokens(onThread(texts::toList)); // between two steps, so that they share all of theirs
        }
    }

    private static void expectTokens(List<CompletableFuture<FinishReason>> texts) {
        for (CompletableFuture<FinishReason> text : texts) {
            if (text.join() instanceof FinishReason.EngineFailed failed) {
                throw new DeviceException("warm-up: expected " + WARM_UP_TOKENS + " tokens, but " + failed.message());
            }
        }
    }

    /** A text that nobody reads, with so long a prompt where it fits, and its end. */
    private CompletableFuture<FinishReason> warmUpText(int length) {
        CompletableFuture<FinishReason> heard = new CompletableFuture<>();
        int[] prompt = new int[Math.max(1, Math.min(length, card().context() - WARM_UP_TOKENS))];
        TokenSink sink = new TokenSink() {
            @Override
            public boolean token(GeneratedToken token) {
                return true;
            }

            @Override
            public void end(FinishReason ending) {
                heard.complete(ending);
            }
        };
        submit(
                new GenerationRequest(
                        HealedPrompt.asIs(prompt),
                        Math.min(WARM_UP_TOKENS, card().context() - prompt.length),
                        SamplingParams.GREEDY,
                        Set.of(),
                        true,
                        GenerationRequest.NO_LOGPROBS,
                        "",
                        "warm-up"),
                sink);
        return heard;
    }

    @Override
    public ModelCard card() {
        return served().model.card();
    }

    @Override
    public EngineStatus status() {
        return status;
    }

    @Override
    public SequenceHandle submit(GenerationRequest request, TokenSink sink) {
        Engine.AdapterSlot adapter = served().adapters.find(request.adapter());
        requireKnown(request.prompt());
        take((long) request.prompt().length + request.maxTokens());
        ScheduledSequence text = new ScheduledSequence(request, new Counted(sink), adapter, this::wake);
        command(() -> {
            if (served().adapters.holds(adapter)) {
                served().batcher.add(text);
            } else {
                text.end(new FinishReason.EngineFailed(
                        FinishReason.FailureKind.INFERENCE_FAILED,
                        "the adapter " + request.adapter() + " was unloaded before the text began"));
            }
        });
        return text;
    }

    private void requireKnown(int[] ids) {
        for (int id : ids) {
            if (id < 0 || id >= card().vocabulary()) {
                throw new IllegalArgumentException(
                        "prompt: expected token ids from 0 to below " + card().vocabulary() + ", got " + id);
            }
        }
    }

    /** Gives the place back when the text ends; whatever a sink does then is nobody else's trouble. */
    private final class Counted implements TokenSink {
        private final TokenSink sink;

        Counted(TokenSink sink) {
            this.sink = sink;
        }

        @Override
        public boolean token(GeneratedToken token) {
            return sink.token(token);
        }

        @Override
        public void end(FinishReason ending) {
            taken.decrementAndGet();
            try {
                sink.end(ending);
            } catch (RuntimeException broken) {
                thread.getUncaughtExceptionHandler().uncaughtException(thread, broken);
            }
        }
    }

    private void requireAlive() {
        if (!status.alive()) {
            throw dead();
        }
    }

    private static EngineException dead() {
        return new EngineException(
                EngineException.EngineErrorKind.DEAD, "the engine has ended; the worker must be started again");
    }

    private void take(long tokens) {
        requireAlive();
        int most = Math.min(card().context(), served().model.blocks() * Engine.BLOCK_SIZE);
        if (tokens > most) {
            throw new EngineException(
                    EngineException.EngineErrorKind.NEVER_FITS,
                    "prompt and max_tokens are " + tokens + " tokens together, at most " + most + " fit");
        }
        if (taken.incrementAndGet() > places) {
            taken.decrementAndGet();
            throw new EngineException(
                    EngineException.EngineErrorKind.QUEUE_FULL,
                    "all " + places + " places are taken; try again in a moment");
        }
    }

    @Override
    public CompletableFuture<List<float[]>> embed(List<int[]> texts, String adapter) {
        Engine.AdapterSlot chosen = served().adapters.find(adapter);
        texts.forEach(this::requireKnown);
        take(texts.stream().mapToInt(text -> text.length).max().orElse(0));
        CompletableFuture<List<float[]>> result = new CompletableFuture<>();
        var _ = result.whenComplete((_, _) -> {
            taken.decrementAndGet();
            wake();
        });
        command(() -> {
            try {
                requireAlive();
                requireHeld(adapter, chosen);
                served().batcher.add(new Embedder.EmbeddingRequest(texts, chosen, result));
            } catch (RuntimeException refused) {
                result.completeExceptionally(refused);
            }
        });
        return result;
    }

    private void requireHeld(String name, Engine.AdapterSlot adapter) {
        if (!served().adapters.holds(adapter)) {
            throw new EngineException(
                    EngineException.EngineErrorKind.UNKNOWN_ADAPTER, "the adapter " + name + " was unloaded");
        }
    }

    @Override
    public List<AdapterCard> adapters() {
        return served().adapters.cards();
    }

    @Override
    public boolean takesAdapters() {
        return served().model.adapters().isPresent();
    }

    @Override
    public void loadAdapter(String name, Path folder) {
        onThread(() -> {
            served().adapters.load(name, folder);
            return name;
        });
    }

    @Override
    public void unloadAdapter(String name) {
        onThread(() -> {
            served().adapters.unload(name);
            served().adapters.sweep(served().batcher::uses); // its name and place may be wanted next
            return name;
        });
    }

    /** Runs something between two steps, and waits for it. */
    private <T> T onThread(Supplier<T> body) {
        CompletableFuture<T> result = new CompletableFuture<>();
        command(() -> {
            try {
                requireAlive();
                result.complete(body.get());
            } catch (RuntimeException | Error failure) {
                failed(result, failure);
            }
        });
        try {
            return result.join();
        } catch (CompletionException failed) {
            throw failed.getCause() instanceof RuntimeException cause ? cause : failed;
        }
    }

    /** Whoever waits is told; an error is the engine's end as well. */
    private static void failed(CompletableFuture<?> result, Throwable failure) {
        result.completeExceptionally(failure);
        if (failure instanceof Error fatal) {
            throw fatal;
        }
    }

    /** Why the engine ended, where it did not end as it was told to. */
    public Optional<Throwable> failure() {
        return failure;
    }

    private void command(Runnable command) {
        synchronized (commands) {
            if (ended) {
                throw dead();
            }
            commands.add(command);
        }
        wake();
    }

    private void runCommands() {
        for (Runnable command = commands.poll(); command != null; command = commands.poll()) {
            command.run();
        }
    }

    private void wake() {
        signal.release();
    }

    private void run(Callable<ServedModel> loader) {
        try {
            ServedModel model = loader.call();
            try {
                Batcher batcher = new Batcher(model, nanos);
                status = batcher.status(true);
                loading.complete(new Served(model, batcher, new AdapterSet(model.adapters(), clock)));
                serve();
            } finally {
                model.release().run();
            }
        } catch (Throwable failure) {
            loading.completeExceptionally(failure);
        }
    }

    private void serve() {
        Batcher batcher = served().batcher;
        FinishReason ending =
                new FinishReason.EngineFailed(FinishReason.FailureKind.INFERENCE_FAILED, "the engine was closed");
        try {
            while (!closed) {
                if (batcher.idle()) {
                    signal.acquire();
                }
                signal.drainPermits();
                runCommands();
                batcher.step();
                served().adapters.sweep(batcher::uses);
                status = batcher.status(true);
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException | Error failure) {
            FinishReason.FailureKind kind = failure instanceof MemoryException
                    ? FinishReason.FailureKind.OUT_OF_MEMORY
                    : FinishReason.FailureKind.INFERENCE_FAILED;
            ending = new FinishReason.EngineFailed(kind, failure.toString());
            this.failure = Optional.of(failure);
        }
        end(batcher, ending);
    }

    /** Nobody comes in any more, and all who are here are told. */
    private void end(Batcher batcher, FinishReason ending) {
        status = batcher.status(false);
        synchronized (commands) {
            ended = true;
        }
        runCommands();
        batcher.endAll(ending);
        status = batcher.status(false);
    }

    /** Ends after the step under way; what still runs fails. */
    @Override
    public void close() {
        closed = true;
        wake();
        try {
            thread.join();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }
}
