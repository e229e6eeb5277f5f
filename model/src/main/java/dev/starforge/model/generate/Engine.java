package dev.starforge.model.generate;

import dev.starforge.model.Model;
import dev.starforge.model.kv.BlockPool;
import dev.starforge.model.kv.KvTensors;
import dev.starforge.model.kv.OutOfBlocksException;
import dev.starforge.model.kv.PagedKvCache;
import dev.starforge.model.kv.PrefixRoot;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.EagerOps;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Decoding;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Runs a model with continuous batching (Yu et al. 2022): each step mixes prefill chunks and single decode tokens of many
 * sequences, with a paged KV cache. The caller schedules: it decides which sequences a step contains. On a CPU, a sequence's
 * logits do not depend on the other sequences in the batch.
 *
 * <p>A decode step, in which every sequence has one token, is captured once per size and replayed (a CUDA graph, for
 * example). Its inputs are one upload to a fixed address. The number of sequences is padded to a power of two; the padding
 * rows write to the {@link KvTensors#paddingBlock padding block}. Steps with prefill chunks or with token masks run eagerly.
 *
 * <p>A step that samples has two parts: {@link #begin} launches it and {@link #finish} waits for its tokens. On an
 * {@link Device#asynchronous asynchronous} device the host is free in between and may close sequences of the step. Their
 * blocks may be reused: a later step writes to them, and the device runs that step after this one.
 *
 * <p>When a sequence grows into another rope regime (longrope, dynamic NTK), its cached keys are invalid and all of its
 * tokens are pending again. Not thread-safe.
 */
public final class Engine implements AutoCloseable {
    /** Tokens of a KV block. */
    public static final int BLOCK_SIZE = PagedKvCache.BLOCK_SIZE;

    /** The largest number of sequences in a captured step. */
    private static final int MAX_CAPTURED_SEQUENCES = 64;

    private static final int MIN_TABLE_WIDTH = 8;

    /** A value of {@code top}: the step does not sample and keeps its logits. */
    private static final int LOGITS_ONLY = -1;

    private final Model model;
    private final Device device;
    private final Scope session;
    private final Scope step;
    private final EagerOps ops;
    private final BlockPool pool;
    private final KvTensors cache;
    private final int blocks;
    private final DeviceSampler sampler;
    private final Map<CaptureKey, CapturedStep> captured = new HashMap<>();
    private StepOutput lastOutput;
    private @Nullable PendingStep pending;

    /** Decode steps with equal keys share one captured step. */
    private record CaptureKey(int sequences, int tableWidth, int regime, int top) {}

    /** A captured step: its fixed inputs and output, and the operation that consumes the logits. */
    private record CapturedStep(StagedBatch inputs, Tensor result, Consumer<Tensor> onLogits) {}

    /** The logits [R, V] of a step or its sampled tokens, and the key of the captured step, if it was one. */
    private record StepOutput(Tensor tensor, @Nullable CaptureKey key) {}

    /** A step between {@link #begin} and {@link #finish}: the number of sampled rows, and of top logprobs per row. */
    private record PendingStep(int rows, int top) {}

    /**
     * The part of a sequence that a step computes: its next {@code count} pending tokens.
     *
     * @param logitRows the number of tokens, counted from the end of the chunk, whose logits are computed. More than one
     *     verifies draft tokens; the sequence can be truncated to before them.
     */
    public record SequenceChunk(Sequence sequence, int count, int logitRows) {}

    /** Creates an engine with a KV cache of {@code blocks} blocks and without token histories. */
    public Engine(Model model, Device device, Precision precision, Fallback fallback, int blocks) {
        this(model, device, precision, fallback, blocks, 0);
    }

    /** Creates an engine with {@code histories} token histories, which sampling penalties need. */
    public Engine(Model model, Device device, Precision precision, Fallback fallback, int blocks, int histories) {
        this.model = model;
        this.device = device;
        this.blocks = blocks;
        session = new Scope(device);
        step = new Scope(device);
        ops = device.ops(step, precision, fallback);
        try {
            pool = new BlockPool(blocks, BLOCK_SIZE, model.info().kvCacheSpecs());
            cache = new KvTensors(model.info().kvCacheSpecs(), blocks, BLOCK_SIZE, precision.kv(), session);
            sampler = new DeviceSampler(device, session, model.info().vocabSize(), histories);
            step.mark();
            lastOutput = new StepOutput(step.allocate(Spec.f32(0, model.info().vocabSize())), null);
        } catch (RuntimeException | Error failure) {
            step.close();
            session.close();
            throw failure;
        }
    }

    /**
     * Opens a sequence. A prefix that the KV cache holds already is not pending.
     *
     * @param adapter the slot of its LoRA adapter
     * @param salt cache salt of the tenant; sequences with different salts share no cached prefix
     */
    public Sequence open(AdapterSlot adapter, String salt, int... ids) {
        return new Sequence(adapter, salt, Math.min(1, ids.length), ids);
    }

    /** Opens a sequence without prefix cache lookup, so that the hidden states of all tokens are computed. */
    public Sequence openUncached(AdapterSlot adapter, int... ids) {
        return new Sequence(adapter, "", ids.length, ids);
    }

    /** Opens a sequence without an adapter and without a cache salt. */
    public Sequence open(int... ids) {
        return open(AdapterSlot.BASE, "", ids);
    }

    /**
     * A slot of the model's LoRA adapter table.
     *
     * @param index the slot, or {@link Batch#BASE} for no adapter
     * @param contentHash hash of the adapter in the slot, part of the prefix cache key; empty for no adapter
     */
    public record AdapterSlot(int index, String contentHash) {
        public static final AdapterSlot BASE = new AdapterSlot(Batch.BASE, "");
    }

    /** Returns the current state of the block pool and its counters. */
    public BlockPool.BlockPoolStats blockPoolStats() {
        return pool.stats();
    }

    /** A sequence of tokens. The keys and values of its first tokens are in the KV cache; the rest is pending. */
    public final class Sequence implements AutoCloseable {
        private final AdapterSlot adapter;
        private final String salt;
        private int[] ids;
        private int length;
        private int regime;
        private BlockPool.BlockTable blockTable;

        private Sequence(AdapterSlot adapter, String salt, int compute, int... ids) {
            this.adapter = adapter;
            this.salt = salt;
            this.ids = requireInVocabulary(ids).clone();
            length = ids.length;
            regime = model.ropeRegime(length);
            blockTable = pool.open(root(), this.ids, compute);
        }

        private Sequence(Sequence original) {
            adapter = original.adapter;
            salt = original.salt;
            ids = original.ids.clone();
            length = original.length;
            regime = original.regime;
            blockTable = original.blockTable.fork();
        }

        private PrefixRoot root() {
            return new PrefixRoot(adapter.contentHash, regime, ops.precision().kv(), salt);
        }

        public int length() {
            return length;
        }

        /** Returns a copy of the token ids from position {@code from}. */
        public int[] ids(int from) {
            return Arrays.copyOfRange(ids, from, length);
        }

        /** Returns the number of tokens whose keys and values are not computed yet. */
        public int pending() {
            return length - blockTable.length();
        }

        /** Returns the rope regime. Sequences of different regimes cannot share a step. */
        public int regime() {
            return regime;
        }

        /** Appends tokens. */
        public void append(int... more) {
            requireInVocabulary(more);
            if (length + more.length > ids.length) {
                ids = Arrays.copyOf(ids, Math.max(length + more.length, 2 * length));
            }
            System.arraycopy(more, 0, ids, length, more.length);
            length += more.length;
            updateRegime();
        }

        /** Truncates the sequence to its first {@code to} tokens. */
        public void truncate(int to) {
            if (to < 0 || to > length) {
                throw new TensorException("truncate: expected a length up to " + length + ", got " + to);
            }
            length = to;
            blockTable.truncate(Math.min(to, blockTable.length()));
            updateRegime();
        }

        private void updateRegime() {
            if (model.ropeRegime(length) != regime) {
                regime = model.ropeRegime(length);
                blockTable.close();
                blockTable = pool.open(root(), Arrays.copyOf(ids, length), Math.min(1, length));
            }
        }

        /** Returns a copy that shares its blocks; a shared block is copied on write. */
        public Sequence fork() {
            return new Sequence(this);
        }

        /** Frees the KV blocks and keeps the token ids, until {@link #resume}. Full blocks stay cached until they are evicted. */
        public void suspend() {
            blockTable.close();
        }

        /** Continues after {@link #suspend}. Tokens whose blocks were evicted are pending again. */
        public void resume() {
            blockTable = pool.open(root(), Arrays.copyOf(ids, length), Math.min(1, length));
        }

        /** Releases its blocks. Full blocks stay in the prefix cache until they are evicted. */
        @Override
        public void close() {
            blockTable.close();
        }
    }

    private int[] requireInVocabulary(int... ids) {
        int vocabulary = model.info().vocabSize();
        for (int id : ids) {
            if (id < 0 || id >= vocabulary) {
                throw new TensorException("token " + id + " is outside the vocabulary of " + vocabulary);
            }
        }
        return ids;
    }

    /**
     * Computes the chunks and keeps their {@link #logits}.
     *
     * @throws OutOfBlocksException if the block pool has too few blocks; nothing is computed then
     */
    public void step(List<SequenceChunk> chunks) {
        requireFinished("step");
        run(chunks, List.of(), LOGITS_ONLY);
    }

    /**
     * Computes the chunks and samples a token from each row of logits, in the order of the chunks. The step has one upload
     * and one read.
     *
     * @param top the number of most likely tokens to return for each row (top logprobs)
     */
    public SampledTokens step(List<SequenceChunk> chunks, List<RowSampling> samplings, int top) {
        begin(chunks, samplings, top);
        return finish();
    }

    /**
     * Launches a step that samples, without reading its tokens. On an asynchronous device this returns while the device
     * computes. {@link #finish} must follow before any other step, which would overwrite the result.
     */
    public void begin(List<SequenceChunk> chunks, List<RowSampling> samplings, int top) {
        requireFinished("begin");
        int logitRows = chunks.stream().mapToInt(SequenceChunk::logitRows).sum();
        if (samplings.size() != logitRows || top < 0) {
            throw new TensorException("step: expected one RowSampling per row of logits and top >= 0, got "
                    + samplings.size() + " for " + logitRows + " rows and top " + top);
        }
        run(chunks, samplings, top);
        pending = new PendingStep(logitRows, top);
    }

    /** Waits for the step that {@link #begin} launched and returns its tokens. */
    public SampledTokens finish() {
        PendingStep begun = pending;
        if (begun == null) {
            throw new TensorException("finish: expected a step in progress; call begin first");
        }
        pending = null;
        if (begun.rows == 0) {
            device.synchronize(); // no rows to read, so nothing else waits for the device
        }
        Tensor result = lastOutput.tensor;
        return sampler.read(result, (int) (result.dim(0) / (2 + 2L * begun.top)), begun.rows, begun.top);
    }

    /** Returns true if {@link #begin} returns before the step is computed. */
    public boolean asynchronous() {
        return device.asynchronous();
    }

    private void requireFinished(String operation) {
        if (pending != null) {
            throw new TensorException(operation + ": the last step, with " + pending.rows
                    + " sampled tokens, is not finished; call finish first");
        }
    }

    /** Runs a step; its output is logits or sampled tokens. */
    private void run(List<SequenceChunk> chunks, List<RowSampling> samplings, int top) {
        int regime = requireValid(chunks);
        List<BlockPool.SlotAllocation> allocations = append(chunks);
        int width = width(chunks);
        boolean decode = chunks.size() <= MAX_CAPTURED_SEQUENCES
                && chunks.stream().allMatch(chunk -> chunk.count == 1 && chunk.logitRows == 1)
                && samplings.stream().allMatch(sampling -> sampling.allowed.isEmpty());
        step.release();
        step.mark();
        cache.copy(
                ops, allocations.stream().flatMap(each -> each.copy().stream()).toList());
        if (decode) {
            int sequences = powerOfTwo(chunks.size(), 1);
            int tableWidth = Math.max(width, Math.min(blocks, powerOfTwo(width, MIN_TABLE_WIDTH)));
            CaptureKey key = new CaptureKey(sequences, tableWidth, regime, top);
            CapturedStep capturedStep = captured.computeIfAbsent(key, this::capture);
            upload(capturedStep.inputs, chunks, allocations, samplings);
            Tensor padded = capturedStep.result;
            Tensor result = top == LOGITS_ONLY ? padded.view(0, Shape.of(chunks.size(), padded.dim(1))) : padded;
            lastOutput = new StepOutput(result, key);
            replay(capturedStep);
        } else {
            StagedBatch inputs = stage(chunks, allocations, samplings, width, regime);
            int logitRows = chunks.stream().mapToInt(SequenceChunk::logitRows).sum();
            lastOutput = new StepOutput(step.within(() -> compute(inputs, logitRows, top)), null);
        }
        for (SequenceChunk chunk : chunks) {
            chunk.sequence.blockTable.publish();
            chunk.sequence.blockTable.releaseOutsideWindow(chunk.logitRows);
        }
    }

    private static int width(List<SequenceChunk> chunks) {
        return chunks.stream()
                .mapToInt(chunk -> chunk.sequence.blockTable.size())
                .max()
                .orElse(0);
    }

    private StagedBatch stage(
            List<SequenceChunk> chunks,
            List<BlockPool.SlotAllocation> allocations,
            List<RowSampling> samplings,
            int width,
            int regime) {
        int tokens = chunks.stream().mapToInt(SequenceChunk::count).sum();
        int logitRows = chunks.stream().mapToInt(SequenceChunk::logitRows).sum();
        int maskWords = samplings.stream().allMatch(sampling -> sampling.allowed.isEmpty())
                ? 0
                : (int) Decoding.Sample.words(model.info().vocabSize());
        StagedBatch inputs =
                new StagedBatch(step, tokens, chunks.size(), width, BLOCK_SIZE, logitRows, regime, maskWords);
        upload(inputs, chunks, allocations, samplings);
        return inputs;
    }

    private Tensor compute(StagedBatch inputs, int logitRows, int top) {
        Tensor logits = model.forward(ops, inputs.batch(), cache);
        if (top == LOGITS_ONLY) {
            return logits;
        }
        Tensor result = step.allocate(DeviceSampler.outputSpec(logitRows, top));
        sampler.sample(logits, inputs.samplingInput(), inputs.maskWords(), result, top);
        return result;
    }

    private static int powerOfTwo(int atLeast, int smallest) {
        return Math.max(smallest, Integer.highestOneBit(Math.max(1, 2 * atLeast - 1)));
    }

    private int requireValid(List<SequenceChunk> chunks) {
        Map<Sequence, SequenceChunk> seen = new IdentityHashMap<>();
        for (SequenceChunk chunk : chunks) {
            Sequence sequence = chunk.sequence;
            if (chunk.count < 1
                    || chunk.count > sequence.pending()
                    || chunk.logitRows < 0
                    || chunk.logitRows > chunk.count) {
                throw new TensorException("step: " + chunk.count + " tokens with " + chunk.logitRows
                        + " rows of logits; the sequence has " + sequence.pending() + " pending tokens");
            }
            if (seen.put(sequence, chunk) != null) {
                throw new TensorException("step: a sequence occurs in two chunks");
            }
            if (sequence.regime != chunks.getFirst().sequence.regime) {
                throw new TensorException("step: sequences of different rope regimes, " + sequence.regime + " and "
                        + chunks.getFirst().sequence.regime + ", do not share a step");
            }
        }
        return chunks.isEmpty() ? 0 : chunks.getFirst().sequence.regime;
    }

    /** Allocates KV slots for all chunks or for none. */
    private List<BlockPool.SlotAllocation> append(List<SequenceChunk> chunks) {
        List<BlockPool.SlotAllocation> allocations = new ArrayList<>();
        try {
            for (SequenceChunk chunk : chunks) {
                Sequence sequence = chunk.sequence;
                int from = sequence.blockTable.length();
                allocations.add(sequence.blockTable.append(Arrays.copyOfRange(sequence.ids, from, from + chunk.count)));
            }
        } catch (OutOfBlocksException full) {
            cache.copy(
                    ops,
                    allocations.stream().flatMap(each -> each.copy().stream()).toList());
            for (int i = 0; i < allocations.size(); i++) {
                BlockPool.BlockTable table = chunks.get(i).sequence.blockTable;
                table.truncate(table.length() - chunks.get(i).count);
            }
            throw full;
        }
        return allocations;
    }

    private void upload(
            StagedBatch inputs,
            List<SequenceChunk> chunks,
            List<BlockPool.SlotAllocation> allocations,
            List<RowSampling> samplings) {
        inputs.clear();
        inputs.setSampling(samplings);
        for (int i = 0; i < chunks.size(); i++) {
            Sequence sequence = chunks.get(i).sequence;
            int count = chunks.get(i).count;
            int from = sequence.blockTable.length() - count;
            inputs.add(
                    Arrays.copyOfRange(sequence.ids, from, from + count),
                    from,
                    allocations.get(i).slots(),
                    sequence.blockTable.blocks(),
                    sequence.adapter.index,
                    chunks.get(i).logitRows);
        }
        inputs.upload(device, cache.paddingBlock());
    }

    private CapturedStep capture(CaptureKey key) {
        int n = key.sequences;
        StagedBatch inputs = new StagedBatch(session, n, n, key.tableWidth, BLOCK_SIZE, n, key.regime, 0);
        if (key.top != LOGITS_ONLY) {
            Tensor result = session.allocate(DeviceSampler.outputSpec(n, key.top));
            return new CapturedStep(
                    inputs, result, logits -> sampler.sample(logits, inputs.samplingInput(), 0, result, key.top));
        }
        Tensor rows = session.allocate(Spec.i32(n));
        device.write(rows, IntStream.range(0, n).toArray());
        Tensor logitsBuffer = session.allocate(Spec.f32(n, model.info().vocabSize()));
        return new CapturedStep(inputs, logitsBuffer, logits -> ops.store(logitsBuffer, rows, logits));
    }

    /** Runs the last decode step again with the same inputs. */
    void repeat() {
        requireFinished("repeat");
        CapturedStep capturedStep = lastOutput.key == null ? null : captured.get(lastOutput.key);
        if (capturedStep == null) {
            throw new TensorException("repeat: expected a decode step before");
        }
        replay(capturedStep);
    }

    private void replay(CapturedStep capturedStep) {
        device.replay(
                capturedStep.inputs,
                () -> step.within(() -> {
                    Batch batch = capturedStep.inputs.batch();
                    capturedStep.onLogits.accept(model.forward(ops, batch, cache));
                    return batch;
                }));
    }

    /** Returns the logits [R, V] of the last step, valid until the next step. A step that samples keeps none. */
    public Tensor logits() {
        if (lastOutput.tensor.dtype() != DType.F32) {
            throw new TensorException("logits: the last step sampled and kept no logits; call step without samplings");
        }
        return lastOutput.tensor;
    }

    /**
     * How to sample a token from a row of logits.
     *
     * @param tokenIndex index of the generated token; seed and index determine the random number
     * @param history index of the token history for penalties, or {@link Decoding#NO_HISTORY}
     * @param allowed the allowed token ids; empty allows all
     */
    public record RowSampling(SamplingParams params, int tokenIndex, int history, Optional<BitSet> allowed) {
        public RowSampling(SamplingParams params, int tokenIndex, int history) {
            this(params, tokenIndex, history, Optional.empty());
        }
    }

    /**
     * The sampled tokens of a step.
     *
     * @param tokens one for each row; {@link Decoding#NO_TOKEN} if the row has no finite logit
     * @param logprobs log probability of each token, before temperature and filters
     * @param topIds the most likely tokens of each row [R, top]
     * @param topLogprobs their log probabilities [R, top]
     */
    public record SampledTokens(int[] tokens, float[] logprobs, int[] topIds, float[] topLogprobs) {}

    /** Starts a token history for penalties with the tokens of a prompt and those generated so far. */
    public void startHistory(int history, int[] prompt, int[] generated) {
        sampler.startHistory(history, prompt, generated);
    }

    /**
     * Computes the chunks and returns the last layer's hidden states [R, C] of their logit rows, for embeddings. The step has
     * no logits.
     *
     * @throws OutOfBlocksException if the block pool has too few blocks; nothing is computed then
     */
    public float[] hidden(List<SequenceChunk> chunks) {
        requireFinished("hidden");
        int regime = requireValid(chunks);
        List<BlockPool.SlotAllocation> allocations = append(chunks);
        step.release();
        step.mark();
        cache.copy(
                ops, allocations.stream().flatMap(each -> each.copy().stream()).toList());
        lastOutput = new StepOutput(step.allocate(Spec.f32(0, model.info().vocabSize())), null);
        StagedBatch inputs = stage(chunks, allocations, List.of(), width(chunks), regime);
        float[] rows =
                step.within(() -> device.floats(ops.cast(model.hiddenStates(ops, inputs.batch(), cache), DType.F32)));
        chunks.forEach(chunk -> chunk.sequence.blockTable.releaseOutsideWindow(0));
        return rows;
    }

    /** Returns the device memory reserved for the KV cache and for steps, in bytes. */
    public long reservedBytes() {
        return session.reservedBytes() + step.reservedBytes();
    }

    /** Runs operations on the output of the last step, in its scope. */
    <T> T within(Function<EagerOps, T> body) {
        return step.within(() -> body.apply(ops));
    }

    @Override
    public void close() {
        captured.values().forEach(capturedStep -> device.forget(capturedStep.inputs));
        step.close();
        session.close();
    }
}
