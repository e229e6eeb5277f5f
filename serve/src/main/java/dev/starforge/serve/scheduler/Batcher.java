package dev.starforge.serve.scheduler;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.SampledTokens;
import dev.starforge.model.generate.StopReason;
import dev.starforge.model.kv.BlockPool;
import dev.starforge.model.kv.OutOfBlocksException;
import dev.starforge.serve.engine.EngineStatus;
import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.tensor.op.Decoding;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.LongSupplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * What each step computes. Every running text has its next token; then prompts get what {@link ChunkSize} allows, first come
 * first served. When blocks run out, the youngest gives its own back and is computed again later. Belongs to one thread.
 *
 * <p>A token is accepted as soon as it is read, which is all that the next step needs: it is the text's, or its end. Sinks are
 * told later: where the device is asynchronous, after the next step was launched, so that the device never waits for them;
 * elsewhere before, since there a launch is the computation. A text may then end, because its sink has enough or it was
 * cancelled, while its next token is computed. Its blocks go back at once: whoever gets them writes to them in a later step,
 * which the device runs after this one. So does its history, and what the step chooses for it is told to nobody.
 */
final class Batcher {
    private final ServedModel model;
    private final Engine engine;
    private final LongSupplier nanos;
    private final Deque<ScheduledSequence> waiting = new ArrayDeque<>();
    private final List<ScheduledSequence> running = new ArrayList<>(); // the oldest first
    private final Deque<Integer> histories = new ArrayDeque<>();
    private final Deque<Runnable> undelivered = new ArrayDeque<>(); // tokens and ends that sinks are to be told
    private final ChunkSize pieceSize = new ChunkSize();
    private final Embedder embedder;
    private int turn;
    private long preemptions;

    Batcher(ServedModel model, LongSupplier nanos) {
        this.model = model;
        this.engine = model.engine();
        this.nanos = nanos;
        embedder = new Embedder(engine, pieceSize, nanos);
        IntStream.range(0, model.sequences()).forEach(histories::add);
    }

    void add(ScheduledSequence text) {
        waiting.add(text);
    }

    void add(Embedder.EmbeddingRequest request) {
        embedder.add(request);
    }

    boolean idle() {
        return waiting.isEmpty() && running.isEmpty() && undelivered.isEmpty() && embedder.idle();
    }

    boolean uses(Engine.AdapterSlot adapter) {
        return Stream.concat(waiting.stream(), running.stream()).anyMatch(text -> text.adapter.equals(adapter))
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

    /**
     * One step, with what is there, while sinks are told what the one before has chosen; then one of texts that become vectors,
     * which is waited for, so that all is told before.
     */
    void step() {
        dropCancelled();
        admit();
        long begin = nanos.getAsLong();
        BatchStep step = begun();
        long took = nanos.getAsLong() - begin;
        deliver();
        if (!step.isEmpty()) {
            finish(step, took);
        }
        if (!engine.asynchronous() || !embedder.idle()) {
            deliver();
        }
        if (!embedder.idle()) {
            embedder.step(pieceSize.tokensBeside(step.promptTokens()), promised() + running.size());
        }
    }

    /** The next step, launched; it is empty if there is nothing to compute. What does not fit is made smaller until it does. */
    private BatchStep begun() {
        while (true) {
            BatchStep step = next();
            if (step.isEmpty()) {
                return step;
            }
            try {
                step.begin(engine);
                return step;
            } catch (OutOfBlocksException full) {
                preempt(full);
            }
        }
    }

    private void finish(BatchStep step, long beginTook) {
        long begin = nanos.getAsLong();
        SampledTokens chosen = engine.finish();
        if (step.isMostlyPrompts()) {
            pieceSize.took(beginTook + nanos.getAsLong() - begin, step.tokens());
        }
        for (int row = 0; row < step.texts().size(); row++) {
            accept(step.texts().get(row), step.token(chosen, row));
        }
    }

    private void dropCancelled() {
        List<ScheduledSequence> all = Stream.concat(waiting.stream(), running.stream())
                .filter(ScheduledSequence::cancelled)
                .toList();
        all.forEach(text -> end(text, new FinishReason.Cancelled()));
    }

    /** Those that wait join while there is a slot, and room for their whole prompt beside what runs. */
    private void admit() {
        while (!waiting.isEmpty() && running.size() < model.sequences()) {
            ScheduledSequence next = waiting.getFirst();
            BlockPool.BlockPoolStats blocks = engine.blockPoolStats();
            int needed = Math.ceilDiv(next.length() + 1, Engine.BLOCK_SIZE);
            if (!running.isEmpty() && needed + promised() > blocks.free() + blocks.cached()) {
                return;
            }
            next.begin(engine);
            if (next.request.sampling().hasPenalties()) {
                next.history(histories.pop());
                engine.startHistory(next.history(), next.request.prompt(), next.generatedIds());
            }
            running.add(waiting.removeFirst());
        }
    }

    /** Blocks that running prompts still want. */
    private int promised() {
        return running.stream()
                .mapToInt(text -> Math.ceilDiv(text.sequence().orElseThrow().pending(), Engine.BLOCK_SIZE))
                .sum();
    }

    /** Pieces in the order of the texts; all are of one rotary regime, and regimes take turns. */
    private BatchStep next() {
        BatchStep step = new BatchStep();
        int budget = pieceSize.tokens();
        int[] regimes = running.stream()
                .mapToInt(text -> text.sequence().orElseThrow().regime())
                .distinct()
                .toArray();
        turn = (turn + 1) % Math.max(1, regimes.length);
        for (ScheduledSequence text : running) {
            Engine.Sequence sequence = text.sequence().orElseThrow();
            int pending = sequence.pending();
            if (sequence.regime() != regimes[turn]) {
                continue;
            }
            int count = pending == 1 ? 1 : Math.min(pending, budget);
            if (count > 0) {
                budget -= pending == 1 ? 0 : count;
                step.add(text, sequence, count);
            }
        }
        return step;
    }

    private void preempt(OutOfBlocksException full) {
        if (embedder.suspend()) {
            preemptions++;
            return;
        }
        ScheduledSequence youngest = running.getLast();
        if (running.size() == 1) {
            close(
                    youngest,
                    new FinishReason.EngineFailed(
                            FinishReason.FailureKind.OUT_OF_MEMORY, String.valueOf(full.getMessage())));
            return;
        }
        preemptions++;
        leave(youngest);
        waiting.addFirst(youngest);
    }

    /** Decides what a token is to its text: all that the next step must know. */
    private void accept(ScheduledSequence text, GeneratedToken token) {
        if (text.request.maxTokens() == 0) {
            close(text, new FinishReason.Completed(StopReason.MAX_TOKENS, text.cachedTokens()));
        } else if (token.id() == Decoding.NO_TOKEN) {
            close(
                    text,
                    new FinishReason.EngineFailed(
                            FinishReason.FailureKind.INFERENCE_FAILED, "no token can follow: logits are not finite"));
        } else if (!text.request.ignoreEos() && model.endTokens().contains(token.id())
                || text.request.stopTokens().contains(token.id())) {
            close(text, new FinishReason.Completed(StopReason.EOS, text.cachedTokens()));
        } else {
            text.add(token.id());
            undelivered.add(() -> tell(text, token));
            if (text.generated() == text.request.maxTokens()) {
                close(text, new FinishReason.Completed(StopReason.MAX_TOKENS, text.cachedTokens()));
            }
        }
    }

    /** In the order in which they were accepted; what a text has after its end is not told. */
    private void deliver() {
        for (Runnable next = undelivered.poll(); next != null; next = undelivered.poll()) {
            next.run();
        }
    }

    private void tell(ScheduledSequence text, GeneratedToken token) {
        if (text.ended()) {
            return;
        }
        if (text.cancelled()) {
            end(text, new FinishReason.Cancelled());
            return;
        }
        boolean more;
        try {
            more = text.tell(token);
        } catch (RuntimeException broken) {
            end(
                    text,
                    new FinishReason.EngineFailed(
                            FinishReason.FailureKind.INFERENCE_FAILED, "the token could not be told: " + broken));
            return;
        }
        if (!more) {
            end(text, new FinishReason.Completed(StopReason.STOP_SEQUENCE, text.cachedTokens()));
        }
    }

    /** The engine ends: so does everything, after what was accepted. */
    void endAll(FinishReason ending) {
        deliver();
        Stream.concat(waiting.stream(), running.stream()).toList().forEach(text -> end(text, ending));
        embedder.endAll("the engine has ended");
    }

    /** Ends a text now. */
    private void end(ScheduledSequence text, FinishReason ending) {
        waiting.remove(text);
        leave(text);
        text.end(ending);
    }

    /** Computes no more of a text, whose sink is told the end after its tokens. */
    private void close(ScheduledSequence text, FinishReason ending) {
        leave(text);
        undelivered.add(() -> text.end(ending));
    }

    private void leave(ScheduledSequence text) {
        running.remove(text);
        text.suspend();
        if (text.history() >= 0) {
            histories.push(text.history());
            text.history(Decoding.NO_HISTORY);
        }
    }
}
