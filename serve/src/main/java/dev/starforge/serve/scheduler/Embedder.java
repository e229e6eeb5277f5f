package dev.starforge.serve.scheduler;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.SequenceChunk;
import dev.starforge.model.kv.BlockPool;
import dev.starforge.model.kv.OutOfBlocksException;
import dev.starforge.serve.engine.EngineException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Texts to vectors: the mean of the last hidden states. It goes on piece by piece beside the batch that generates, texts of
 * many requests in one step, first come first served, so that neither waits long for the other. Whoever generates is served
 * first when blocks run short: texts here give theirs back and begin again. Belongs to one thread.
 */
final class Embedder {
    private final Engine engine;
    private final ChunkSize pieceSize;
    private final LongSupplier nanos;
    private final List<EmbeddingInput> parts = new ArrayList<>(); // the oldest first; those that have begun come first

    /** A request: its texts, their vectors so far, and where they go when all are there. */
    static final class EmbeddingRequest {
        private final List<int[]> texts;
        private final Engine.AdapterSlot adapter;
        private final CompletableFuture<List<float[]>> result;
        private final float[][] vectors;
        private int left;

        EmbeddingRequest(List<int[]> texts, Engine.AdapterSlot adapter, CompletableFuture<List<float[]>> result) {
            this.texts = texts;
            this.adapter = adapter;
            this.result = result;
            left = texts.size();
            vectors = new float[left][];
        }

        void computed(int index, float[] vector) {
            vectors[index] = vector;
            if (--left == 0) {
                result.complete(List.of(vectors));
            }
        }
    }

    /** One text of a request, and the sum of its states so far. */
    private static final class EmbeddingInput {
        private final EmbeddingRequest request;
        private final int index;
        private Engine.@Nullable Sequence sequence;
        private double[] sum = {};

        EmbeddingInput(EmbeddingRequest request, int index) {
            this.request = request;
            this.index = index;
        }

        int[] ids() {
            return request.texts.get(index);
        }

        Engine.Sequence begun(Engine engine) {
            Engine.Sequence open = sequence == null ? engine.openUncached(request.adapter, ids()) : sequence;
            sequence = open;
            return open;
        }

        int pending() {
            return sequence == null ? ids().length : sequence.pending();
        }

        boolean suspend() {
            boolean held = sequence != null;
            if (sequence != null) {
                sequence.close();
                sequence = null;
            }
            sum = new double[0];
            return held;
        }

        void add(float[] rows, int from, int count, int width) {
            sum = sum.length == 0 ? new double[width] : sum;
            for (int i = 0; i < count * width; i++) {
                sum[i % width] += rows[from * width + i];
            }
        }
    }

    Embedder(Engine engine, ChunkSize pieceSize, LongSupplier nanos) {
        this.engine = engine;
        this.pieceSize = pieceSize;
        this.nanos = nanos;
    }

    void add(EmbeddingRequest request) {
        for (int i = 0; i < request.texts.size(); i++) {
            parts.add(new EmbeddingInput(request, i));
        }
    }

    boolean idle() {
        return parts.isEmpty();
    }

    int running() {
        return (int) parts.stream().filter(part -> part.sequence != null).count();
    }

    int waiting() {
        return parts.size() - running();
    }

    boolean uses(Engine.AdapterSlot adapter) {
        return parts.stream().anyMatch(part -> part.request.adapter.equals(adapter));
    }

    /** Gives all blocks back; whether there were any. */
    boolean suspend() {
        return parts.stream().map(EmbeddingInput::suspend).reduce(false, Boolean::logicalOr);
    }

    void endAll(String why) {
        suspend();
        parts.forEach(part -> part.request.result.completeExceptionally(
                new EngineException(EngineException.EngineErrorKind.DEAD, why)));
        parts.clear();
    }

    /**
     * One step of up to so many tokens.
     *
     * @param promised blocks that those who generate will want
     */
    void step(int tokens, int promised) {
        List<EmbeddingInput> gone =
                parts.stream().filter(part -> part.request.result.isDone()).toList();
        gone.forEach(EmbeddingInput::suspend);
        parts.removeAll(gone);
        List<EmbeddingInput> chosen = new ArrayList<>();
        List<SequenceChunk> pieces = pieces(tokens, promised, chosen);
        if (pieces.isEmpty()) {
            return;
        }
        long begin = nanos.getAsLong();
        float[] rows;
        try {
            rows = engine.hidden(pieces);
        } catch (OutOfBlocksException full) {
            suspend();
            return;
        }
        int count = pieces.stream().mapToInt(SequenceChunk::count).sum();
        pieceSize.took(nanos.getAsLong() - begin, count);
        int from = 0;
        for (int i = 0; i < chosen.size(); i++) {
            chosen.get(i).add(rows, from, pieces.get(i).count(), rows.length / count);
            from += pieces.get(i).count();
            if (chosen.get(i).pending() == 0) {
                finish(chosen.get(i));
            }
        }
    }

    /** Pieces of one rotary regime, as many as there is room for. */
    private List<SequenceChunk> pieces(int tokens, int promised, List<EmbeddingInput> chosen) {
        List<SequenceChunk> pieces = new ArrayList<>();
        BlockPool.BlockPoolStats blocks = engine.blockPoolStats();
        int room = blocks.free() + blocks.cached() - promised;
        int left = tokens;
        for (EmbeddingInput part : parts) {
            int count = Math.min(part.pending(), left);
            room -= Math.ceilDiv(part.pending(), Engine.BLOCK_SIZE);
            boolean alone = pieces.isEmpty() && promised == 0;
            if (count == 0 || room < 0 && !alone) {
                break;
            }
            Engine.Sequence sequence = part.begun(engine);
            if (!pieces.isEmpty()
                    && sequence.regime() != pieces.getFirst().sequence().regime()) {
                break;
            }
            pieces.add(new SequenceChunk(sequence, count, count));
            chosen.add(part);
            left -= count;
        }
        return pieces;
    }

    private void finish(EmbeddingInput part) {
        float[] vector = unit(part.sum);
        part.suspend();
        parts.remove(part);
        part.request.computed(part.index, vector);
    }

    /** A sum is as good as a mean, once it has length 1. */
    private static float[] unit(double[] sum) {
        double squares = 0;
        for (double each : sum) {
            squares += each * each;
        }
        double length = squares == 0 ? 1 : Math.sqrt(squares);
        float[] mean = new float[sum.length];
        for (int i = 0; i < mean.length; i++) {
            mean[i] = (float) (sum[i] / length);
        }
        return mean;
    }
}
