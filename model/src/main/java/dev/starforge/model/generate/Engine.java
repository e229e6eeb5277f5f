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
 * Runs a model one step at a time over many sequences: pieces of prompts and single tokens mixed (Yu et al. 2022), keys and
 * values in shared blocks. What to run in a step, and in which order, is for others to decide; on a CPU
 * each sequence has the same logits whatever its company.
 *
 * <p>A step in which every sequence has one token, as most are, is recorded once for a size and replayed: its inputs come in
 * one upload to a place that stays, and what it is short of the size, a power of two, are rows that go nowhere. Steps with
 * pieces of prompts, or with tokens to choose from, run as they are.
 *
 * <p>A step that chooses tokens has two halves: {@link #begin} launches it and {@link #finish} waits for its tokens. On an
 * {@link Device#asynchronous asynchronous} device the host is free in between, and may close sequences of the step: whoever
 * gets their blocks writes to them in a later step, which the device runs after this one.
 *
 * <p>Where a text grows into another rotary regime, what is cached of it is of no use, and all of its tokens are pending
 * again. For one thread.
 */
public final class Engine implements AutoCloseable {
    /** Tokens of a KV block. */
    public static final int BLOCK_SIZE = PagedKvCache.BLOCK_SIZE;

    /** The most sequences of a recorded step. */
    private static final int MAX_CAPTURED_SEQUENCES = 64;

    private static final int MIN_TABLE_WIDTH = 8;

    /** In place of how many of the likeliest tokens to tell: the step leaves logits. */
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

    /** What makes two steps of single tokens the same recording. */
    private record CaptureKey(int sequences, int tableWidth, int regime, int top) {}

    /** Where a recorded step has its inputs and its result, and what it does with its logits. */
    private record CapturedStep(StagedBatch inputs, Tensor result, Consumer<Tensor> onLogits) {}

    /** The logits [R, V] of a step or the tokens it chose, and the recording they are of. */
    private record StepOutput(Tensor tensor, @Nullable CaptureKey size) {}

    /** A step that was begun: how many rows have a token, with how many of the likeliest. */
    private record PendingStep(int wanted, int top) {}

    /**
     * The next {@code count} pending tokens of a sequence, with logits after the last {@code wanted} of them, which may be
     * drafts: the text can be cut back to before them.
     */
    public record SequenceChunk(Sequence sequence, int count, int logitRows) {}

    /** Room for {@code blocks} blocks of keys and values. */
    public Engine(Model model, Device device, Precision precision, Fallback fallback, int blocks) {
        this(model, device, precision, fallback, blocks, 0);
    }

    /** The same, with so many histories for penalties. */
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
     * A text to continue. As much of it as is cached already is not pending.
     *
     * @param adapter which of the model's table of adapters it has
     * @param salt of the tenant; what has another is not shared
     */
    public Sequence open(AdapterSlot adapter, String salt, int... ids) {
        return new Sequence(adapter, salt, Math.min(1, ids.length), ids);
    }

    /** A text of which all hidden states are wanted: none of it is taken from the cache. */
    public Sequence openUncached(AdapterSlot adapter, int... ids) {
        return new Sequence(adapter, "", ids.length, ids);
    }

    /** The same with the model as it is, for whoever asks. */
    public Sequence open(int... ids) {
        return open(AdapterSlot.BASE, "", ids);
    }

    /**
     * An adapter that the model was loaded with room for.
     *
     * @param index its place in the table, or {@link Batch#BASE}
     * @param contentHash what prefixes are shared by, since a place may get another one; empty for none
     */
    public record AdapterSlot(int index, String contentHash) {
        public static final AdapterSlot BASE = new AdapterSlot(Batch.BASE, "");
    }

    /** Blocks and prefixes as they are. */
    public BlockPool.BlockPoolStats blockPoolStats() {
        return pool.stats();
    }

    /** One text: its tokens, of which the first are cached. */
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
            this.ids = requireKnown(ids).clone();
            length = ids.length;
            regime = model.ropeRegime(length);
            blockTable = pool.open(root(), this.ids, compute);
        }

        private Sequence(Sequence twin) {
            adapter = twin.adapter;
            salt = twin.salt;
            ids = twin.ids.clone();
            length = twin.length;
            regime = twin.regime;
            blockTable = twin.blockTable.fork();
        }

        private PrefixRoot root() {
            return new PrefixRoot(adapter.contentHash, regime, ops.precision().kv(), salt);
        }

        public int length() {
            return length;
        }

        /** A copy of the token ids from position {@code from}. */
        public int[] ids(int from) {
            return Arrays.copyOfRange(ids, from, length);
        }

        /** Tokens whose keys and values are not computed yet. */
        public int pending() {
            return length - blockTable.length();
        }

        /** Which rotary tables hold for it; sequences of two regimes do not share a step. */
        public int regime() {
            return regime;
        }

        /** Appends to the text. */
        public void append(int... more) {
            requireKnown(more);
            if (length + more.length > ids.length) {
                ids = Arrays.copyOf(ids, Math.max(length + more.length, 2 * length));
            }
            System.arraycopy(more, 0, ids, length, more.length);
            length += more.length;
            followRegime();
        }

        /** Cuts the text back to its first tokens. */
        public void truncate(int to) {
            if (to < 0 || to > length) {
                throw new TensorException("truncate: expected a length up to " + length + ", got " + to);
            }
            length = to;
            blockTable.truncate(Math.min(to, blockTable.length()));
            followRegime();
        }

        private void followRegime() {
            if (model.ropeRegime(length) != regime) {
                regime = model.ropeRegime(length);
                blockTable.close();
                blockTable = pool.open(root(), Arrays.copyOf(ids, length), Math.min(1, length));
            }
        }

        /** The same text once more, to be continued otherwise. */
        public Sequence fork() {
            return new Sequence(this);
        }

        /** Frees the KV blocks and keeps the token ids, until {@link #resume}. Full blocks stay cached until they are needed. */
        public void suspend() {
            blockTable.close();
        }

        /** Continues after {@link #suspend}; what is not cached any more is pending. */
        public void resume() {
            blockTable = pool.open(root(), Arrays.copyOf(ids, length), Math.min(1, length));
        }

        /** Gives its blocks back; full ones stay cached for others until they are needed. */
        @Override
        public void close() {
            blockTable.close();
        }
    }

    private int[] requireKnown(int... ids) {
        int vocabulary = model.info().vocabSize();
        for (int id : ids) {
            if (id < 0 || id >= vocabulary) {
                throw new TensorException("token " + id + " is outside the vocabulary of " + vocabulary);
            }
        }
        return ids;
    }

    /**
     * Computes pending tokens of some sequences.
     *
     * @throws OutOfBlocksException when their blocks do not suffice; nothing is computed then
     */
    public void step(List<SequenceChunk> chunks) {
        requireFinished("step");
        run(chunks, List.of(), LOGITS_ONLY);
    }

    /**
     * The same, and chooses a token after each row that is wanted, in the order of the pieces: all of it in one upload and one
     * read, and where every sequence has one token in one recording.
     *
     * @param top how many of the likeliest tokens to tell of each row
     */
    public SampledTokens step(List<SequenceChunk> chunks, List<RowSampling> samplings, int top) {
        begin(chunks, samplings, top);
        return finish();
    }

    /**
     * The first half of such a step, without the read: an asynchronous device computes when this returns, another has done so.
     * Nothing else is computed before {@link #finish}, since it would take the place of the result.
     */
    public void begin(List<SequenceChunk> chunks, List<RowSampling> samplings, int top) {
        requireFinished("begin");
        int logitRows = chunks.stream().mapToInt(SequenceChunk::logitRows).sum();
        if (samplings.size() != logitRows || top < 0) {
            throw new TensorException(
                    "step: " + samplings.size() + " choices and the " + top + " likeliest tokens after " + logitRows
                            + " rows of logits: expected as many choices, and 0 or more");
        }
        run(chunks, samplings, top);
        pending = new PendingStep(logitRows, top);
    }

    /** The second half: waits for what was chosen. */
    public SampledTokens finish() {
        PendingStep begun = pending;
        if (begun == null) {
            throw new TensorException("finish: no step was begun");
        }
        pending = null;
        if (begun.wanted == 0) {
            device.synchronize(); // there is nothing to read, which would wait
        }
        Tensor result = lastOutput.tensor;
        return sampler.read(result, (int) (result.dim(0) / (2 + 2L * begun.top)), begun.wanted, begun.top);
    }

    /** Whether {@link #begin} returns before the step is computed. */
    public boolean asynchronous() {
        return device.asynchronous();
    }

    private void requireFinished(String operation) {
        if (pending != null) {
            throw new TensorException(operation + ": the last step, of " + pending.wanted
                    + " tokens, was begun and not finished; its tokens would be lost");
        }
    }

    /** Leaves logits, or what was chosen after them. */
    private void run(List<SequenceChunk> chunks, List<RowSampling> samplings, int top) {
        int regime = requireFit(chunks);
        List<BlockPool.SlotAllocation> allocations = append(chunks);
        int width = width(chunks);
        boolean singles = chunks.size() <= MAX_CAPTURED_SEQUENCES
                && chunks.stream().allMatch(chunk -> chunk.count == 1 && chunk.logitRows == 1)
                && samplings.stream().allMatch(sampling -> sampling.allowed.isEmpty());
        step.release();
        step.mark();
        cache.copy(
                ops, allocations.stream().flatMap(each -> each.copy().stream()).toList());
        if (singles) {
            int sequences = powerOfTwo(chunks.size(), 1);
            int columns = Math.max(width, Math.min(blocks, powerOfTwo(width, MIN_TABLE_WIDTH)));
            CaptureKey size = new CaptureKey(sequences, columns, regime, top);
            CapturedStep capturedStep = captured.computeIfAbsent(size, this::capture);
            upload(capturedStep.inputs, chunks, allocations, samplings);
            Tensor whole = capturedStep.result;
            Tensor result = top == LOGITS_ONLY ? whole.view(0, Shape.of(chunks.size(), whole.dim(1))) : whole;
            lastOutput = new StepOutput(result, size);
            replay(capturedStep);
        } else {
            StagedBatch inputs = staged(chunks, allocations, samplings, width, regime);
            int logitRows = chunks.stream().mapToInt(SequenceChunk::logitRows).sum();
            lastOutput = new StepOutput(step.within(() -> computed(inputs, logitRows, top)), null);
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

    private StagedBatch staged(
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

    private Tensor computed(StagedBatch inputs, int logitRows, int top) {
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

    private int requireFit(List<SequenceChunk> chunks) {
        Map<Sequence, SequenceChunk> seen = new IdentityHashMap<>();
        for (SequenceChunk chunk : chunks) {
            Sequence sequence = chunk.sequence;
            if (chunk.count < 1
                    || chunk.count > sequence.pending()
                    || chunk.logitRows < 0
                    || chunk.logitRows > chunk.count) {
                throw new TensorException("step: " + chunk.count + " tokens with " + chunk.logitRows
                        + " rows of logits of a sequence with " + sequence.pending() + " pending");
            }
            if (seen.put(sequence, chunk) != null) {
                throw new TensorException("step: a sequence has two pieces");
            }
            if (sequence.regime != chunks.getFirst().sequence.regime) {
                throw new TensorException("step: sequences of two rotary regimes, " + sequence.regime + " and "
                        + chunks.getFirst().sequence.regime + ", do not share a step");
            }
        }
        return chunks.isEmpty() ? 0 : chunks.getFirst().sequence.regime;
    }

    /** Makes room for all of them or for none. */
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
                BlockPool.BlockTable place = chunks.get(i).sequence.blockTable;
                place.truncate(place.length() - chunks.get(i).count);
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

    private CapturedStep capture(CaptureKey size) {
        int n = size.sequences;
        StagedBatch inputs = new StagedBatch(session, n, n, size.tableWidth, BLOCK_SIZE, n, size.regime, 0);
        if (size.top != LOGITS_ONLY) {
            Tensor result = session.allocate(DeviceSampler.outputSpec(n, size.top));
            return new CapturedStep(
                    inputs, result, logits -> sampler.sample(logits, inputs.samplingInput(), 0, result, size.top));
        }
        Tensor rows = session.allocate(Spec.i32(n));
        device.write(rows, IntStream.range(0, n).toArray());
        Tensor kept = session.allocate(Spec.f32(n, model.info().vocabSize()));
        return new CapturedStep(inputs, kept, logits -> ops.store(kept, rows, logits));
    }

    /** Runs the last step of single tokens again, from the same inputs. */
    void repeat() {
        requireFinished("repeat");
        CapturedStep capturedStep = lastOutput.size == null ? null : captured.get(lastOutput.size);
        if (capturedStep == null) {
            throw new TensorException("repeat: the last step was not one of single tokens");
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

    /** The logits of the last step, a row for each that was wanted; valid until the next. A step that chooses keeps none. */
    public Tensor logits() {
        if (lastOutput.tensor.dtype() != DType.F32) {
            throw new TensorException("logits: the last step chose tokens and kept none; step without choices instead");
        }
        return lastOutput.tensor;
    }

    /**
     * What is to follow a row of logits.
     *
     * @param index of the token in its text: with the seed it decides the draw
     * @param history where uses of tokens are counted for penalties, or {@link Decoding#NO_HISTORY}
     * @param allowed the tokens to choose from; nothing is all
     */
    public record RowSampling(SamplingParams params, int tokenIndex, int history, Optional<BitSet> allowed) {
        public RowSampling(SamplingParams params, int tokenIndex, int history) {
            this(params, tokenIndex, history, Optional.empty());
        }
    }

    /**
     * Tokens by row; {@link Decoding#NO_TOKEN} where no logit is usable.
     *
     * @param logprobs of the model's own distribution, before temperature and the rest
     * @param topIds the most likely tokens of each row, as many as were asked for
     */
    public record SampledTokens(int[] tokens, float[] logprobs, int[] topIds, float[] topLogprobs) {}

    /** Begins to count the tokens of a text, and what was generated of it, under a number below {@code histories}. */
    public void startHistory(int history, int[] prompt, int[] generated) {
        sampler.startHistory(history, prompt, generated);
    }

    /**
     * Computes pending tokens of some sequences for their last hidden states: those of the rows that are wanted, [R, C], one
     * after the other. There are no logits after it.
     *
     * @throws OutOfBlocksException when their blocks do not suffice; nothing is computed then
     */
    public float[] hidden(List<SequenceChunk> chunks) {
        requireFinished("hidden");
        int regime = requireFit(chunks);
        List<BlockPool.SlotAllocation> allocations = append(chunks);
        step.release();
        step.mark();
        cache.copy(
                ops, allocations.stream().flatMap(each -> each.copy().stream()).toList());
        lastOutput = new StepOutput(step.allocate(Spec.f32(0, model.info().vocabSize())), null);
        StagedBatch inputs = staged(chunks, allocations, List.of(), width(chunks), regime);
        float[] rows =
                step.within(() -> device.floats(ops.cast(model.hiddenStates(ops, inputs.batch(), cache), DType.F32)));
        chunks.forEach(chunk -> chunk.sequence.blockTable.releaseOutsideWindow(0));
        return rows;
    }

    /** Bytes taken from the device for keys, values and steps. */
    public long reservedBytes() {
        return session.reservedBytes() + step.reservedBytes();
    }

    /** Runs something on the results of the last step. */
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
