package dev.starforge.serve.scheduler;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.SampledTokens;
import dev.starforge.model.generate.StopReason;
import dev.starforge.model.kv.BlockPool;
import dev.starforge.model.kv.OutOfBlocksException;
import dev.starforge.serve.engine.EngineStatus;
import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.tensor.op.Decoding;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.LongSupplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Decides what each step computes (continuous batching with chunked prefill). Every running sequence gets its next token; prompts
 * share the rest of the {@link ChunkSize}, first come first served. When KV blocks run out, the youngest sequence is preempted and
 * recomputed later. Confined to one thread.
 *
 * <p>A token is accepted as soon as it is read: it extends its sequence or ends it, which is all that the next step needs. Sinks
 * receive it later: on an asynchronous device after the next step was launched, so that the device never waits for them; on other
 * devices before, since there a launch is the computation. So a sequence can end, because its sink stops it or it is cancelled,
 * while its next token is computed. Its blocks are freed at once: they are written again only by a later step, which the device runs
 * after this one. The token that the step samples for it is dropped.
 */
final class Batcher {
    private final ServedModel model;
    private final Engine engine;
    private final LongSupplier nanos;
    private final Deque<ScheduledSequence> waiting = new ArrayDeque<>();
    private final List<ScheduledSequence> running = new ArrayList<>(); // oldest first
    private final Deque<Integer> freeHistories = new ArrayDeque<>();
    private final Deque<Runnable> undelivered = new ArrayDeque<>(); // accepted tokens and ends, in order
    private final ChunkSize chunkSize = new ChunkSize();
    private final Embedder embedder;
    private int turn;
    private long preemptions;

    Batcher(ServedModel model, LongSupplier nanos) {
        this.model = model;
        this.engine = model.engine();
        this.nanos = nanos;
        embedder = new Embedder(engine, chunkSize, nanos);
        IntStream.range(0, model.sequences()).forEach(freeHistories::add);
    }

    void add(ScheduledSequence sequence) {
        waiting.add(sequence);
    }

    void add(Embedder.EmbeddingRequest request) {
        embedder.add(request);
    }

    boolean idle() {
        return waiting.isEmpty() && running.isEmpty() && undelivered.isEmpty() && embedder.idle();
    }

    boolean uses(Engine.AdapterSlot adapter) {
        return Stream.concat(waiting.stream(), running.stream()).anyMatch(each -> each.adapter.equals(adapter))
                || embedder.uses(adapter);
    }

    EngineStatus status(boolean alive) {
        BlockPool.BlockPoolStats blocks = engine.blockPoolStats();
        return new EngineStatus(
                alive,
                running.size() + embedder.running(),
                waiting.size() + embedder.waiting(),
                model.sequences() - running.size(),
                (double) blocks.held() / model.blocks(),
                model.weightBytes() + engine.reservedBytes(),
                blocks.queries(),
                blocks.hits(),
                preemptions);
    }

    /** Runs one generation step, delivering the tokens of the previous one meanwhile, then one embedding step. */
    void step() {
        dropCancelled();
        admit();
        long begin = nanos.getAsLong();
        BatchStep step = launch();
        long launchNanos = nanos.getAsLong() - begin;
        deliver();
        if (!step.isEmpty()) {
            finish(step, launchNanos);
        }
        if (!engine.asynchronous() || !embedder.idle()) {
            deliver(); // an embedding step blocks
        }
        if (!embedder.idle()) {
            embedder.step(chunkSize.tokensBeside(step.promptTokens()), promisedBlocks() + running.size());
        }
    }

    /** Launches the next step; preempts sequences until it fits. Empty if there is nothing to compute. */
    private BatchStep launch() {
        while (true) {
            BatchStep step = next();
            if (step.isEmpty()) {
                return step;
            }
            try {
                step.begin(engine);
                return step;
            } catch (OutOfBlocksException e) {
                preempt(e);
            }
        }
    }

    private void finish(BatchStep step, long launchNanos) {
        long begin = nanos.getAsLong();
        SampledTokens chosen = engine.finish();
        if (step.isMostlyPrefill()) {
            chunkSize.record(launchNanos + nanos.getAsLong() - begin, step.tokens());
        }
        for (int row = 0; row < step.sampled().size(); row++) {
            accept(step.sampled().get(row), step.token(chosen, row));
        }
    }

    private void dropCancelled() {
        List<ScheduledSequence> cancelled = Stream.concat(waiting.stream(), running.stream())
                .filter(ScheduledSequence::cancelled)
                .toList();
        cancelled.forEach(sequence -> end(sequence, new FinishReason.Cancelled()));
    }

    /** Schedules waiting sequences while there is a free slot, and room for their whole prompt. */
    private void admit() {
        while (!waiting.isEmpty() && running.size() < model.sequences()) {
            ScheduledSequence next = waiting.getFirst();
            BlockPool.BlockPoolStats blocks = engine.blockPoolStats();
            int needed = Math.ceilDiv(next.length() + 1, Engine.BLOCK_SIZE);
            if (!running.isEmpty() && needed + promisedBlocks() > blocks.free() + blocks.cached()) {
                return;
            }
            next.schedule(engine);
            if (next.request.sampling().hasPenalties()) {
                next.history(freeHistories.pop());
                engine.startHistory(next.history(), next.request.prompt(), next.generatedIds());
            }
            running.add(waiting.removeFirst());
        }
    }

    /** Blocks that running sequences need for their pending tokens. */
    private int promisedBlocks() {
        return running.stream()
                .mapToInt(sequence -> Math.ceilDiv(sequence.engineSequence().pending(), Engine.BLOCK_SIZE))
                .sum();
    }

    /** Chunks of the running sequences of one RoPE regime; regimes take turns. */
    private BatchStep next() {
        BatchStep step = new BatchStep();
        int budget = chunkSize.tokens();
        int[] regimes = running.stream()
                .mapToInt(sequence -> sequence.engineSequence().regime())
                .distinct()
                .toArray();
        turn = (turn + 1) % Math.max(1, regimes.length);
        for (ScheduledSequence sequence : running) {
            int pending = sequence.engineSequence().pending();
            if (sequence.engineSequence().regime() != regimes[turn]) {
                continue;
            }
            int count = pending == 1 ? 1 : Math.min(pending, budget);
            if (count > 0) {
                budget -= pending == 1 ? 0 : count;
                step.add(sequence, count);
            }
        }
        return step;
    }

    private void preempt(OutOfBlocksException cause) {
        if (embedder.suspend()) {
            preemptions++;
            return;
        }
        ScheduledSequence youngest = running.getLast();
        if (running.size() == 1) {
            finish(
                    youngest,
                    new FinishReason.EngineFailed(
                            FinishReason.FailureKind.OUT_OF_MEMORY, String.valueOf(cause.getMessage())));
            return;
        }
        preemptions++;
        release(youngest);
        waiting.addFirst(youngest);
    }

    /** Applies a sampled token to its sequence; the sink receives it in {@link #deliver}. */
    private void accept(ScheduledSequence sequence, GeneratedToken token) {
        if (sequence.ended()) {
            return;
        }
        GenerationRequest request = sequence.request;
        if (request.maxTokens() == 0) {
            finish(sequence, new FinishReason.Completed(StopReason.MAX_TOKENS, sequence.cachedTokens()));
        } else if (token.id() == Decoding.NO_TOKEN) {
            finish(
                    sequence,
                    new FinishReason.EngineFailed(
                            FinishReason.FailureKind.INFERENCE_FAILED,
                            "no token can be sampled: logits are not finite"));
        } else if (!request.stop().ignoreEos() && model.endTokens().contains(token.id())
                || request.stop().tokens().contains(token.id())) {
            finish(sequence, new FinishReason.Completed(StopReason.EOS, sequence.cachedTokens()));
        } else {
            sequence.append(token.id());
            undelivered.add(() -> deliver(sequence, token));
            if (sequence.generated() == request.maxTokens()) {
                finish(sequence, new FinishReason.Completed(StopReason.MAX_TOKENS, sequence.cachedTokens()));
            }
        }
    }

    /** Passes accepted tokens and ends to the sinks, in order. */
    private void deliver() {
        for (Runnable next = undelivered.poll(); next != null; next = undelivered.poll()) {
            next.run();
        }
    }

    private void deliver(ScheduledSequence sequence, GeneratedToken token) {
        if (sequence.ended()) {
            return;
        }
        if (sequence.cancelled()) {
            end(sequence, new FinishReason.Cancelled());
            return;
        }
        boolean more;
        try {
            more = sequence.deliver(token);
        } catch (RuntimeException e) {
            end(
                    sequence,
                    new FinishReason.EngineFailed(
                            FinishReason.FailureKind.INFERENCE_FAILED, "the token could not be delivered: " + e));
            return;
        }
        if (!more) {
            end(sequence, new FinishReason.Completed(StopReason.STOP_SEQUENCE, sequence.cachedTokens()));
        }
    }

    /** Ends all sequences, after delivering what was accepted. */
    void endAll(FinishReason reason) {
        deliver();
        Stream.concat(waiting.stream(), running.stream()).toList().forEach(sequence -> end(sequence, reason));
        embedder.endAll("the engine has ended");
    }

    /** Ends a sequence now. */
    private void end(ScheduledSequence sequence, FinishReason reason) {
        waiting.remove(sequence);
        release(sequence);
        sequence.end(reason);
    }

    /** Stops computing a sequence; the sink receives the end after the tokens that are not delivered yet. */
    private void finish(ScheduledSequence sequence, FinishReason reason) {
        release(sequence);
        undelivered.add(() -> sequence.end(reason));
    }

    private void release(ScheduledSequence sequence) {
        running.remove(sequence);
        sequence.suspend();
        if (sequence.history() >= 0) {
            freeHistories.push(sequence.history());
            sequence.history(Decoding.NO_HISTORY);
        }
    }
}
