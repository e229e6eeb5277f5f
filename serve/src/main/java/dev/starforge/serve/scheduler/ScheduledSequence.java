package dev.starforge.serve.scheduler;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.RowSampling;
import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.SequenceHandle;
import dev.starforge.serve.engine.TokenSink;
import dev.starforge.tensor.op.Decoding;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** One request while it is served. Belongs to the engine's thread, but for {@link #cancel}. */
final class ScheduledSequence implements SequenceHandle {
    final GenerationRequest request;
    final Engine.AdapterSlot adapter;
    private final TokenSink sink;
    private final Runnable wake;
    private int[] ids; // the first length() of them
    private int generated;
    private boolean constrained = true; // until any token may follow
    private int cached = -1;
    private int history = Decoding.NO_HISTORY;
    private Engine.@Nullable Sequence sequence;
    private boolean ended;
    private volatile boolean cancelled;

    ScheduledSequence(GenerationRequest request, TokenSink sink, Engine.AdapterSlot adapter, Runnable wake) {
        this.request = request;
        this.sink = sink;
        this.adapter = adapter;
        this.wake = wake;
        ids = request.prompt().clone();
    }

    @Override
    public void cancel() {
        cancelled = true;
        wake.run();
    }

    boolean cancelled() {
        return cancelled;
    }

    int length() {
        return request.prompt().length + generated;
    }

    int generated() {
        return generated;
    }

    /** Tokens of the prompt that were found in the cache when it first began. */
    int cachedTokens() {
        return Math.max(0, cached);
    }

    Optional<Engine.Sequence> sequence() {
        return Optional.ofNullable(sequence);
    }

    /** Joins the running ones, again after it was preempted. */
    Engine.Sequence begin(Engine engine) {
        Engine.Sequence begun = engine.open(adapter, request.tenant(), Arrays.copyOf(ids, length()));
        cached = cached < 0 ? length() - begun.pending() : cached;
        sequence = begun;
        return begun;
    }

    /** Gives its blocks back; what was said stays. */
    void suspend() {
        if (sequence != null) {
            sequence.close();
            sequence = null;
        }
    }

    /** Where its tokens are counted, for penalties. */
    void history(int number) {
        history = number;
    }

    int history() {
        return history;
    }

    /** What was said so far. */
    int[] generatedIds() {
        return Arrays.copyOfRange(ids, request.prompt().length, length());
    }

    RowSampling choice() {
        Optional<BitSet> allowed = constrained ? request.text().allowed(generatedIds()) : Optional.empty();
        constrained = allowed.isPresent();
        return new RowSampling(request.sampling(), generated, history, allowed);
    }

    void add(int id) {
        if (length() == ids.length) {
            ids = Arrays.copyOf(ids, 2 * ids.length);
        }
        ids[length()] = id;
        generated++;
        if (sequence != null) {
            sequence.append(id);
        }
    }

    /** Tells the sink a token; whether it wants more. */
    boolean tell(GeneratedToken token) {
        return sink.token(token);
    }

    /** Tells the sink the end, the first time. */
    void end(FinishReason ending) {
        if (!ended) {
            ended = true;
            sink.end(ending);
        }
    }

    boolean ended() {
        return ended;
    }
}
