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
 * Computes embeddings: the mean of the last hidden states. Inputs are prefilled in chunks, between generation steps, inputs of many
 * requests in one step, first come first served. When KV blocks run out, generation has priority: inputs here free their blocks and
 * start again. Confined to one thread.
 */
final class Embedder {
    private final Engine engine;
    private final ChunkSize chunkSize;
    private final LongSupplier nanos;
    private final List<EmbeddingInput> inputs = new ArrayList<>(); // oldest first; started ones come first

    /** The inputs of a request, and their vectors so far. */
    static final class EmbeddingRequest {
        private final List<int[]> inputs;
        private final Engine.AdapterSlot adapter;
        private final CompletableFuture<List<float[]>> result;
        private final float[][] vectors;
        private int left;

        EmbeddingRequest(List<int[]> inputs, Engine.AdapterSlot adapter, CompletableFuture<List<float[]>> result) {
            this.inputs = inputs;
            this.adapter = adapter;
            this.result = result;
            left = inputs.size();
            vectors = new float[left][];
        }

        void computed(int index, float[] vector) {
            vectors[index] = vector;
            if (--left == 0) {
                result.complete(List.of(vectors));
            }
        }
    }

    /** One input of a request, and the sum of its hidden states so far. */
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
            return request.inputs.get(index);
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

    Embedder(Engine engine, ChunkSize chunkSize, LongSupplier nanos) {
        this.engine = engine;
        this.chunkSize = chunkSize;
        this.nanos = nanos;
    }

    void add(EmbeddingRequest request) {
        for (int i = 0; i < request.inputs.size(); i++) {
            inputs.add(new EmbeddingInput(request, i));
        }
    }

    boolean idle() {
        return inputs.isEmpty();
    }

    int running() {
        return (int) inputs.stream().filter(input -> input.sequence != null).count();
    }

    int waiting() {
        return inputs.size() - running();
    }

    boolean uses(Engine.AdapterSlot adapter) {
        return inputs.stream().anyMatch(input -> input.request.adapter.equals(adapter));
    }

    /** Frees all KV blocks. Returns true if there were any. */
    boolean suspend() {
        return inputs.stream().map(EmbeddingInput::suspend).reduce(false, Boolean::logicalOr);
    }

    void endAll(String reason) {
        suspend();
        inputs.forEach(input -> input.request.result.completeExceptionally(
                new EngineException(EngineException.EngineErrorKind.DEAD, reason)));
        inputs.clear();
    }

    /**
     * Runs one step of at most {@code tokens} tokens.
     *
     * @param promised KV blocks that generation needs
     */
    void step(int tokens, int promised) {
        List<EmbeddingInput> done =
                inputs.stream().filter(input -> input.request.result.isDone()).toList();
        done.forEach(EmbeddingInput::suspend);
        inputs.removeAll(done);
        List<EmbeddingInput> chosen = new ArrayList<>();
        List<SequenceChunk> chunks = chunks(tokens, promised, chosen);
        if (chunks.isEmpty()) {
            return;
        }
        long begin = nanos.getAsLong();
        float[] rows;
        try {
            rows = engine.hidden(chunks);
        } catch (OutOfBlocksException e) {
            suspend();
            return;
        }
        int count = chunks.stream().mapToInt(SequenceChunk::count).sum();
        chunkSize.record(nanos.getAsLong() - begin, count);
        int from = 0;
        for (int i = 0; i < chosen.size(); i++) {
            chosen.get(i).add(rows, from, chunks.get(i).count(), rows.length / count);
            from += chunks.get(i).count();
            if (chosen.get(i).pending() == 0) {
                finish(chosen.get(i));
            }
        }
    }

    /** Chunks of one RoPE regime, as many as fit. */
    private List<SequenceChunk> chunks(int tokens, int promised, List<EmbeddingInput> chosen) {
        List<SequenceChunk> chunks = new ArrayList<>();
        BlockPool.BlockPoolStats blocks = engine.blockPoolStats();
        int room = blocks.free() + blocks.cached() - promised;
        int left = tokens;
        for (EmbeddingInput input : inputs) {
            int count = Math.min(input.pending(), left);
            room -= Math.ceilDiv(input.pending(), Engine.BLOCK_SIZE);
            boolean alone = chunks.isEmpty() && promised == 0;
            if (count == 0 || room < 0 && !alone) {
                break;
            }
            Engine.Sequence sequence = input.begun(engine);
            if (!chunks.isEmpty()
                    && sequence.regime() != chunks.getFirst().sequence().regime()) {
                break;
            }
            chunks.add(new SequenceChunk(sequence, count, count));
            chosen.add(input);
            left -= count;
        }
        return chunks;
    }

    private void finish(EmbeddingInput input) {
        float[] vector = unit(input.sum);
        input.suspend();
        inputs.remove(input);
        input.request.computed(input.index, vector);
    }

    /** The unit vector; the sum and the mean have the same direction. */
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
