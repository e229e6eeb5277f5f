package dev.starforge.serve.scheduler;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.RowSampling;
import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.SequenceHandle;
import dev.starforge.serve.engine.TokenSink;
import dev.starforge.tensor.op.Decoding;
import java.util.BitSet;
import java.util.Optional;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * A sequence in the scheduler: waiting, running or preempted. Its token ids are in the {@link Engine.Sequence}, which is opened when
 * the sequence first runs. Confined to the engine's thread, except {@link #cancel}.
 */
final class ScheduledSequence implements SequenceHandle {
    final GenerationRequest request;
    final Engine.AdapterSlot adapter;
    private final TokenSink sink;
    private final Runnable onCancel;
    private final Runnable onEnd;
    private final Consumer<RuntimeException> onSinkFailure;
    private boolean constrained = true; // until token healing is complete
    private int cachedTokens;
    private int history = Decoding.NO_HISTORY;
    private Engine.@Nullable Sequence engineSequence;
    private boolean ended;
    private volatile boolean cancelled;

    /**
     * @param onCancel wakes the engine's thread
     * @param onEnd runs before the sink receives the end
     * @param onSinkFailure receives an exception of the sink, which must not stop the engine
     */
    ScheduledSequence(
            GenerationRequest request,
            TokenSink sink,
            Engine.AdapterSlot adapter,
            Runnable onCancel,
            Runnable onEnd,
            Consumer<RuntimeException> onSinkFailure) {
        this.request = request;
        this.sink = sink;
        this.adapter = adapter;
        this.onCancel = onCancel;
        this.onEnd = onEnd;
        this.onSinkFailure = onSinkFailure;
    }

    @Override
    public void cancel() {
        cancelled = true;
        onCancel.run();
    }

    boolean cancelled() {
        return cancelled;
    }

    int length() {
        return engineSequence == null ? request.prompt().length : engineSequence.length();
    }

    /** Number of generated tokens. */
    int generated() {
        return length() - request.prompt().length;
    }

    /** Prompt tokens found in the prefix cache when the sequence was first scheduled. */
    int cachedTokens() {
        return cachedTokens;
    }

    /** The engine's side of a running sequence. */
    Engine.Sequence engineSequence() {
        if (engineSequence == null) {
            throw new IllegalStateException("sequence: not scheduled yet");
        }
        return engineSequence;
    }

    /** Starts to run, or resumes after a preemption. */
    void schedule(Engine engine) {
        Engine.Sequence preempted = engineSequence;
        if (preempted == null) {
            Engine.Sequence opened = engine.open(adapter, request.tenant(), request.prompt());
            cachedTokens = opened.length() - opened.pending();
            engineSequence = opened;
        } else {
            preempted.resume();
        }
    }

    /** Frees its KV blocks; the token ids stay. */
    void suspend() {
        if (engineSequence != null) {
            engineSequence.suspend();
        }
    }

    /** Index of its token counts, for penalties. */
    void history(int index) {
        history = index;
    }

    int history() {
        return history;
    }

    int[] generatedIds() {
        return engineSequence == null ? new int[0] : engineSequence.ids(request.prompt().length);
    }

    RowSampling samplingParams() {
        Optional<BitSet> allowed = constrained ? request.healedPrompt().allowed(generatedIds()) : Optional.empty();
        constrained = allowed.isPresent();
        return new RowSampling(request.sampling(), generated(), history, allowed);
    }

    void append(int id) {
        engineSequence().append(id);
    }

    /** Passes a token to the sink. Returns false if the sink accepts no more. */
    boolean deliver(GeneratedToken token) {
        return sink.token(token);
    }

    /** Passes the end to the sink, once. */
    void end(FinishReason reason) {
        if (!ended) {
            ended = true;
            onEnd.run();
            try {
                sink.end(reason);
            } catch (RuntimeException e) {
                onSinkFailure.accept(e);
            }
        }
    }

    boolean ended() {
        return ended;
    }
}
