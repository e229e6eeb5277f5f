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
import dev.starforge.serve.engine.StopConditions;
import dev.starforge.serve.engine.TokenSink;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.text.tokenizer.HealedPrompt;
import java.nio.file.Path;
import java.time.InstantSource;
import java.util.List;
import java.util.Optional;
import java.util.Set;
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
 * Serves a model to many requests at once (continuous batching, Yu et al. 2022). One thread owns the device, the weights and the KV
 * cache, and runs the steps that {@link Batcher} composes. Other threads enqueue commands and read a status snapshot; only loading and
 * unloading an adapter waits for the engine's thread.
 */
public final class Scheduler implements InferenceEngine, AutoCloseable {
    private static final int WARM_UP_PROMPT = 64;
    private static final int WARM_UP_TOKENS = 4;
    private static final int FIRST_BATCH = 16;
    private static final EngineStatus DEAD = new EngineStatus(false, 0, 0, 0, 0, 0, 0, 0, 0);

    private final int maxRequests;
    private final LongSupplier nanos;
    private final InstantSource clock;
    private final Thread thread;
    private final ConcurrentLinkedQueue<Runnable> commands = new ConcurrentLinkedQueue<>();
    private final Semaphore signal = new Semaphore(0);
    private final AtomicInteger activeRequests = new AtomicInteger();
    private final CompletableFuture<Served> loading = new CompletableFuture<>();
    private volatile EngineStatus status = new EngineStatus(true, 0, 0, 0, 0, 0, 0, 0, 0);
    private volatile boolean closed;
    private volatile Optional<Throwable> failure = Optional.empty();
    private boolean ended; // guarded by commands: no more commands are accepted

    private record Served(ServedModel model, Batcher batcher, AdapterSet adapters) {}

    private Scheduler(Supplier<ServedModel> loader, int maxRequests, LongSupplier nanos, InstantSource clock) {
        this.maxRequests = maxRequests;
        this.nanos = nanos;
        this.clock = clock;
        thread = Thread.ofPlatform().name("engine").unstarted(() -> run(loader));
    }

    /**
     * Loads a model on the engine's thread and starts to serve it.
     *
     * @param maxRequests maximum number of running and waiting requests
     * @param nanos the clock that chunk sizes are measured with
     */
    public static Scheduler start(
            Supplier<ServedModel> loader, int maxRequests, LongSupplier nanos, InstantSource clock)
            throws InterruptedException {
        Scheduler scheduler = new Scheduler(loader, maxRequests, nanos, clock);
        scheduler.thread.start();
        try {
            scheduler.loading.get();
            return scheduler;
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            if (failed.getCause() instanceof Error cause) {
                throw cause;
            }
            throw new IllegalStateException(failed.getCause());
        }
    }

    private Served served() {
        return loading.join();
    }

    /**
     * Generates a few tokens, so that everything that is compiled, captured or read on first use is ready before the first request,
     * and a model that cannot generate never becomes ready. On an asynchronous device also runs batches of increasing size, which have
     * their own kernels.
     */
    public void warmUp() {
        expectTokens(List.of(submitWarmUp(WARM_UP_PROMPT)));
        ServedModel model = served().model;
        int largest = model.engine().asynchronous() ? Math.min(model.sequences(), maxRequests) : 0;
        for (int batch = FIRST_BATCH; batch <= largest; batch *= 2) {
            Stream<CompletableFuture<FinishReason>> requests =
                    Stream.generate(() -> submitWarmUp(1)).limit(batch);
            expectTokens(onThread(requests::toList)); // between two steps, so that they share all of their steps
        }
    }

    private static void expectTokens(List<CompletableFuture<FinishReason>> requests) {
        for (CompletableFuture<FinishReason> request : requests) {
            if (request.join() instanceof FinishReason.EngineFailed failed) {
                throw new DeviceException("warm-up: expected " + WARM_UP_TOKENS + " tokens, but " + failed.message());
            }
        }
    }

    private CompletableFuture<FinishReason> submitWarmUp(int promptLength) {
        CompletableFuture<FinishReason> end = new CompletableFuture<>();
        int[] prompt = new int[Math.max(1, Math.min(promptLength, card().context() - WARM_UP_TOKENS))];
        TokenSink sink = new TokenSink() {
            @Override
            public boolean token(GeneratedToken token) {
                return true;
            }

            @Override
            public void end(FinishReason reason) {
                end.complete(reason);
            }
        };
        int maxTokens = Math.min(WARM_UP_TOKENS, card().context() - prompt.length);
        submit(
                new GenerationRequest(
                        HealedPrompt.asIs(prompt),
                        SamplingParams.GREEDY,
                        new StopConditions(maxTokens, Set.of(), true),
                        GenerationRequest.NO_LOGPROBS,
                        "",
                        "warm-up"),
                sink);
        return end;
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
        reserve((long) request.prompt().length + request.maxTokens());
        ScheduledSequence sequence = new ScheduledSequence(
                request, sink, adapter, this::wake, activeRequests::decrementAndGet, this::uncaught);
        enqueue(() -> {
            if (served().adapters.holds(adapter)) {
                served().batcher.add(sequence);
            } else {
                sequence.end(new FinishReason.EngineFailed(
                        FinishReason.FailureKind.INFERENCE_FAILED,
                        "the adapter " + request.adapter() + " was unloaded before generation began"));
            }
        });
        return sequence;
    }

    private void requireKnown(int[] ids) {
        for (int id : ids) {
            if (id < 0 || id >= card().vocabulary()) {
                throw new IllegalArgumentException(
                        "prompt: expected token ids from 0 to below " + card().vocabulary() + ", got " + id);
            }
        }
    }

    private void uncaught(RuntimeException e) {
        thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
    }

    private void requireAlive() {
        if (!status.alive()) {
            throw dead();
        }
    }

    private static EngineException dead() {
        return new EngineException(EngineException.EngineErrorKind.DEAD, "the engine has stopped; restart the worker");
    }

    /** Counts a request, which must fit the context and the KV cache. */
    private void reserve(long tokens) {
        requireAlive();
        int limit = Math.min(card().context(), served().model.blocks() * Engine.BLOCK_SIZE);
        if (tokens > limit) {
            throw new EngineException(
                    EngineException.EngineErrorKind.NEVER_FITS,
                    "prompt and max_tokens are " + tokens + " tokens together, at most " + limit + " fit");
        }
        if (activeRequests.incrementAndGet() > maxRequests) {
            activeRequests.decrementAndGet();
            throw new EngineException(
                    EngineException.EngineErrorKind.QUEUE_FULL,
                    "the queue is full: " + maxRequests + " requests are running or waiting; retry later");
        }
    }

    @Override
    public CompletableFuture<List<float[]>> embed(List<int[]> inputs, String adapter) {
        Engine.AdapterSlot chosen = served().adapters.find(adapter);
        inputs.forEach(this::requireKnown);
        reserve(inputs.stream().mapToInt(input -> input.length).max().orElse(0));
        CompletableFuture<List<float[]>> result = new CompletableFuture<>();
        var _ = result.whenComplete((_, _) -> {
            activeRequests.decrementAndGet();
            wake();
        });
        enqueue(() -> {
            try {
                requireAlive();
                requireHeld(adapter, chosen);
                served().batcher.add(new Embedder.EmbeddingRequest(inputs, chosen, result));
            } catch (RuntimeException e) {
                result.completeExceptionally(e);
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
            served().adapters.sweep(served().batcher::uses); // the caller may load another adapter next
            return name;
        });
    }

    /** Runs {@code body} on the engine's thread, between two steps, and waits for its result. */
    private <T> T onThread(Supplier<T> body) {
        CompletableFuture<T> result = new CompletableFuture<>();
        enqueue(() -> {
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

    /** Passes a failure to the caller; an {@code Error} also stops the engine. */
    private static void failed(CompletableFuture<?> result, Throwable failure) {
        result.completeExceptionally(failure);
        if (failure instanceof Error fatal) {
            throw fatal;
        }
    }

    /** The failure that stopped the engine; empty if it was closed or still runs. */
    public Optional<Throwable> failure() {
        return failure;
    }

    private void enqueue(Runnable command) {
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

    private void run(Supplier<ServedModel> loader) {
        try {
            ServedModel model = loader.get();
            try {
                Batcher batcher = new Batcher(model, nanos);
                status = batcher.status(true);
                loading.complete(new Served(model, batcher, new AdapterSet(model.adapters(), clock)));
                serve();
            } finally {
                model.release().run();
            }
        } catch (Throwable failure) {
            if (!loading.completeExceptionally(failure)) { // the engine failed again while it ended
                this.failure = this.failure.or(() -> Optional.of(failure));
                status = DEAD;
            }
        }
    }

    private void serve() {
        Batcher batcher = served().batcher;
        FinishReason reason =
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
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException | Error failure) {
            FinishReason.FailureKind kind = failure instanceof MemoryException
                    ? FinishReason.FailureKind.OUT_OF_MEMORY
                    : FinishReason.FailureKind.INFERENCE_FAILED;
            reason = new FinishReason.EngineFailed(kind, failure.toString());
            this.failure = Optional.of(failure);
        }
        end(batcher, reason);
    }

    /** Accepts no more commands, and ends all sequences. */
    private void end(Batcher batcher, FinishReason reason) {
        status = batcher.status(false);
        synchronized (commands) {
            ended = true;
        }
        runCommands();
        batcher.endAll(reason);
        status = batcher.status(false);
    }

    /** Stops the engine after the current step; running sequences fail. */
    @Override
    public void close() {
        closed = true;
        wake();
        try {
            thread.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
