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
    public static final int BLOCK = PagedKvCache.BLOCK;

    /** The most sequences of a recorded step. */
    private static final int RECORDED = 64;

    private static final int NARROWEST_TABLE = 8;

    /** In place of how many of the likeliest tokens to tell: the step leaves logits. */
    private static final int NONE_CHOSEN = -1;

    private final Model model;
    private final Device device;
    private final Scope session;
    private final Scope step;
    private final EagerOps ops;
    private final BlockPool pool;
    private final KvTensors cache;
    private final int blocks;
    private final DeviceSampler sampler;
    private final Map<Size, Recorded> recorded = new HashMap<>();
    private Result last;
    private @Nullable Unfinished unfinished;

    /** What makes two steps of single tokens the same recording. */
    private record Size(int sequences, int tableWidth, int regime, int top) {}

    /** Where a recorded step has its inputs and its result, and what it does with its logits. */
    private record Recorded(Staging staging, Tensor result, Consumer<Tensor> then) {}

    /** The logits [R, V] of a step or the tokens it chose, and the recording they are of. */
    private record Result(Tensor tensor, @Nullable Size size) {}

    /** A step that was begun: how many rows have a token, with how many of the likeliest. */
    private record Unfinished(int wanted, int top) {}

    /**
     * The next {@code count} pending tokens of a sequence, with logits after the last {@code wanted} of them, which may be
     * drafts: the text can be cut back to before them.
     */
    public record Piece(Sequence sequence, int count, int wanted) {}

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
            pool = new BlockPool(blocks, BLOCK, model.facts().caches());
            cache = new KvTensors(model.facts().caches(), blocks, BLOCK, precision.kv(), session);
            sampler = new DeviceSampler(device, session, model.facts().vocabulary(), histories);
            step.mark();
            last = new Result(step.allocate(Spec.f32(0, model.facts().vocabulary())), null);
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
    public Sequence open(Adapter adapter, String salt, int... ids) {
        return new Sequence(adapter, salt, Math.min(1, ids.length), ids);
    }

    /** A text of which all hidden states are wanted: none of it is taken from the cache. */
    public Sequence openWhole(Adapter adapter, int... ids) {
        return new Sequence(adapter, "", ids.length, ids);
    }

    /** The same with the model as it is, for whoever asks. */
    public Sequence open(int... ids) {
        return open(Adapter.BASE, "", ids);
    }

    /**
     * An adapter that the model was loaded with room for.
     *
     * @param index its place in the table, or {@link Batch#BASE}
     * @param contentHash what prefixes are shared by, since a place may get another one; empty for none
     */
    public record Adapter(int index, String contentHash) {
        public static final Adapter BASE = new Adapter(Batch.BASE, "");
    }

    /** Blocks and prefixes as they are. */
    public BlockPool.Figures figures() {
        return pool.figures();
    }

    /** One text: its tokens, of which the first are cached. */
    public final class Sequence implements AutoCloseable {
        private final Adapter adapter;
        private final String salt;
        private int[] ids;
        private int length;
        private int regime;
        private BlockPool.Sequence place;

        private Sequence(Adapter adapter, String salt, int compute, int... ids) {
            this.adapter = adapter;
            this.salt = salt;
            this.ids = requireKnown(ids).clone();
            length = ids.length;
            regime = model.regime(length);
            place = pool.open(root(), this.ids, compute);
        }

        private Sequence(Sequence twin) {
            adapter = twin.adapter;
            salt = twin.salt;
            ids = twin.ids.clone();
            length = twin.length;
            regime = twin.regime;
            place = twin.place.fork();
        }

        private PrefixRoot root() {
            return new PrefixRoot(adapter.contentHash, regime, ops.precision().kv(), salt);
        }

        public int length() {
            return length;
        }

        /** Tokens whose keys and values are not computed yet. */
        public int pending() {
            return length - place.length();
        }

        /** Which rotary tables hold for it; sequences of two regimes do not share a step. */
        public int regime() {
            return regime;
        }

        /** Appends to the text. */
        public void add(int... more) {
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
            place.truncate(Math.min(to, place.length()));
            followRegime();
        }

        private void followRegime() {
            if (model.regime(length) != regime) {
                regime = model.regime(length);
                place.close();
                place = pool.open(root(), Arrays.copyOf(ids, length), Math.min(1, length));
            }
        }

        /** The same text once more, to be continued otherwise. */
        public Sequence fork() {
            return new Sequence(this);
        }

        /** Gives its blocks back; full ones stay cached for others until they are needed. */
        @Override
        public void close() {
            place.close();
        }
    }

    private int[] requireKnown(int... ids) {
        int vocabulary = model.facts().vocabulary();
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
    public void step(List<Piece> pieces) {
        requireFinished("step");
        run(pieces, List.of(), NONE_CHOSEN);
    }

    /**
     * The same, and chooses a token after each row that is wanted, in the order of the pieces: all of it in one upload and one
     * read, and where every sequence has one token in one recording.
     *
     * @param top how many of the likeliest tokens to tell of each row
     */
    public Chosen step(List<Piece> pieces, List<Choice> choices, int top) {
        begin(pieces, choices, top);
        return finish();
    }

    /**
     * The first half of such a step, without the read: an asynchronous device computes when this returns, another has done so.
     * Nothing else is computed before {@link #finish}, since it would take the place of the result.
     */
    public void begin(List<Piece> pieces, List<Choice> choices, int top) {
        requireFinished("begin");
        int wanted = pieces.stream().mapToInt(Piece::wanted).sum();
        if (choices.size() != wanted || top < 0) {
            throw new TensorException("step: " + choices.size() + " choices and the " + top + " likeliest tokens after "
                    + wanted + " rows of logits: expected as many choices, and 0 or more");
        }
        run(pieces, choices, top);
        unfinished = new Unfinished(wanted, top);
    }

    /** The second half: waits for what was chosen. */
    public Chosen finish() {
        Unfinished begun = unfinished;
        if (begun == null) {
            throw new TensorException("finish: no step was begun");
        }
        unfinished = null;
        if (begun.wanted == 0) {
            device.synchronize(); // there is nothing to read, which would wait
        }
        Tensor result = last.tensor;
        return sampler.read(result, (int) (result.dim(0) / (2 + 2L * begun.top)), begun.wanted, begun.top);
    }

    /** Whether {@link #begin} returns before the step is computed. */
    public boolean asynchronous() {
        return device.asynchronous();
    }

    private void requireFinished(String operation) {
        if (unfinished != null) {
            throw new TensorException(operation + ": the last step, of " + unfinished.wanted
                    + " tokens, was begun and not finished; its tokens would be lost");
        }
    }

    /** Leaves logits, or what was chosen after them. */
    private void run(List<Piece> pieces, List<Choice> choices, int top) {
        int regime = requireFit(pieces);
        List<BlockPool.Append> appended = append(pieces);
        int width = width(pieces);
        boolean singles = pieces.size() <= RECORDED
                && pieces.stream().allMatch(piece -> piece.count == 1 && piece.wanted == 1)
                && choices.stream().allMatch(choice -> choice.allowed.isEmpty());
        step.release();
        step.mark();
        cache.copy(ops, appended.stream().flatMap(each -> each.copy().stream()).toList());
        if (singles) {
            int sequences = powerOfTwo(pieces.size(), 1);
            int columns = Math.max(width, Math.min(blocks, powerOfTwo(width, NARROWEST_TABLE)));
            Size size = new Size(sequences, columns, regime, top);
            Recorded recording = recorded.computeIfAbsent(size, this::recording);
            upload(recording.staging, pieces, appended, choices);
            Tensor whole = recording.result;
            Tensor result = top == NONE_CHOSEN ? whole.view(0, Shape.of(pieces.size(), whole.dim(1))) : whole;
            last = new Result(result, size);
            replay(recording);
        } else {
            Staging staging = staged(pieces, appended, choices, width, regime);
            int wanted = pieces.stream().mapToInt(Piece::wanted).sum();
            last = new Result(step.within(() -> computed(staging, wanted, top)), null);
        }
        for (Piece piece : pieces) {
            piece.sequence.place.publish();
            piece.sequence.place.releaseUnseen(piece.wanted);
        }
    }

    private static int width(List<Piece> pieces) {
        return pieces.stream()
                .mapToInt(piece -> piece.sequence.place.tableWidth())
                .max()
                .orElse(0);
    }

    private Staging staged(
            List<Piece> pieces, List<BlockPool.Append> appended, List<Choice> choices, int width, int regime) {
        int tokens = pieces.stream().mapToInt(Piece::count).sum();
        int wanted = pieces.stream().mapToInt(Piece::wanted).sum();
        int words = choices.stream().allMatch(choice -> choice.allowed.isEmpty())
                ? 0
                : (int) Decoding.Sample.words(model.facts().vocabulary());
        Staging staging = new Staging(step, tokens, pieces.size(), width, BLOCK, wanted, regime, words);
        upload(staging, pieces, appended, choices);
        return staging;
    }

    private Tensor computed(Staging staging, int wanted, int top) {
        Tensor logits = model.forward(ops, staging.batch(), cache);
        if (top == NONE_CHOSEN) {
            return logits;
        }
        Tensor result = step.allocate(DeviceSampler.result(wanted, top));
        sampler.run(logits, staging.choiceNumbers(), staging.words(), result, top);
        return result;
    }

    private static int powerOfTwo(int atLeast, int smallest) {
        return Math.max(smallest, Integer.highestOneBit(Math.max(1, 2 * atLeast - 1)));
    }

    private int requireFit(List<Piece> pieces) {
        Map<Sequence, Piece> seen = new IdentityHashMap<>();
        for (Piece piece : pieces) {
            Sequence sequence = piece.sequence;
            if (piece.count < 1 || piece.count > sequence.pending() || piece.wanted < 0 || piece.wanted > piece.count) {
                throw new TensorException("step: " + piece.count + " tokens with " + piece.wanted
                        + " rows of logits of a sequence with " + sequence.pending() + " pending");
            }
            if (seen.put(sequence, piece) != null) {
                throw new TensorException("step: a sequence has two pieces");
            }
            if (sequence.regime != pieces.getFirst().sequence.regime) {
                throw new TensorException("step: sequences of two rotary regimes, " + sequence.regime + " and "
                        + pieces.getFirst().sequence.regime + ", do not share a step");
            }
        }
        return pieces.isEmpty() ? 0 : pieces.getFirst().sequence.regime;
    }

    /** Makes room for all of them or for none. */
    private List<BlockPool.Append> append(List<Piece> pieces) {
        List<BlockPool.Append> appended = new ArrayList<>();
        try {
            for (Piece piece : pieces) {
                Sequence sequence = piece.sequence;
                int from = sequence.place.length();
                appended.add(sequence.place.append(Arrays.copyOfRange(sequence.ids, from, from + piece.count)));
            }
        } catch (OutOfBlocksException full) {
            cache.copy(
                    ops, appended.stream().flatMap(each -> each.copy().stream()).toList());
            for (int i = 0; i < appended.size(); i++) {
                BlockPool.Sequence place = pieces.get(i).sequence.place;
                place.truncate(place.length() - pieces.get(i).count);
            }
            throw full;
        }
        return appended;
    }

    private void upload(Staging staging, List<Piece> pieces, List<BlockPool.Append> appended, List<Choice> choices) {
        staging.clear();
        staging.choose(choices);
        for (int i = 0; i < pieces.size(); i++) {
            Sequence sequence = pieces.get(i).sequence;
            int count = pieces.get(i).count;
            int from = sequence.place.length() - count;
            staging.add(
                    Arrays.copyOfRange(sequence.ids, from, from + count),
                    from,
                    appended.get(i).rows(),
                    sequence.place.table(),
                    sequence.adapter.index,
                    pieces.get(i).wanted);
        }
        staging.upload(device, cache.sink());
    }

    private Recorded recording(Size size) {
        int n = size.sequences;
        Staging staging = new Staging(session, n, n, size.tableWidth, BLOCK, n, size.regime, 0);
        if (size.top != NONE_CHOSEN) {
            Tensor result = session.allocate(DeviceSampler.result(n, size.top));
            return new Recorded(
                    staging, result, logits -> sampler.run(logits, staging.choiceNumbers(), 0, result, size.top));
        }
        Tensor rows = session.allocate(Spec.i32(n));
        device.write(rows, IntStream.range(0, n).toArray());
        Tensor kept = session.allocate(Spec.f32(n, model.facts().vocabulary()));
        return new Recorded(staging, kept, logits -> ops.store(kept, rows, logits));
    }

    /** Runs the last step of single tokens again, from the same inputs. */
    void repeat() {
        requireFinished("repeat");
        Recorded recording = last.size == null ? null : recorded.get(last.size);
        if (recording == null) {
            throw new TensorException("repeat: the last step was not one of single tokens");
        }
        replay(recording);
    }

    private void replay(Recorded recording) {
        device.replay(
                recording.staging,
                () -> step.within(() -> {
                    Batch batch = recording.staging.batch();
                    recording.then.accept(model.forward(ops, batch, cache));
                    return batch;
                }));
    }

    /** The logits of the last step, a row for each that was wanted; valid until the next. A step that chooses keeps none. */
    public Tensor logits() {
        if (last.tensor.dtype() != DType.F32) {
            throw new TensorException("logits: the last step chose tokens and kept none; step without choices instead");
        }
        return last.tensor;
    }

    /**
     * What is to follow a row of logits.
     *
     * @param index of the token in its text: with the seed it decides the draw
     * @param history where uses of tokens are counted for penalties, or {@link Decoding#NO_HISTORY}
     * @param allowed the tokens to choose from; nothing is all
     */
    public record Choice(Sampling sampling, int index, int history, Optional<BitSet> allowed) {
        public Choice(Sampling sampling, int index, int history) {
            this(sampling, index, history, Optional.empty());
        }
    }

    /**
     * Tokens by row; {@link Decoding#NO_TOKEN} where no logit is usable.
     *
     * @param logprobs of the model's own distribution, before temperature and the rest
     * @param topIds the most likely tokens of each row, as many as were asked for
     */
    public record Chosen(int[] tokens, float[] logprobs, int[] topIds, float[] topLogprobs) {}

    /** Begins to count the tokens of a text, and what was generated of it, under a number below {@code histories}. */
    public void remember(int history, int[] prompt, int[] generated) {
        sampler.remember(history, prompt, generated);
    }

    /**
     * Computes pending tokens of some sequences for their last hidden states: those of the rows that are wanted, [R, C], one
     * after the other. There are no logits after it.
     *
     * @throws OutOfBlocksException when their blocks do not suffice; nothing is computed then
     */
    public float[] hidden(List<Piece> pieces) {
        requireFinished("hidden");
        int regime = requireFit(pieces);
        List<BlockPool.Append> appended = append(pieces);
        step.release();
        step.mark();
        cache.copy(ops, appended.stream().flatMap(each -> each.copy().stream()).toList());
        last = new Result(step.allocate(Spec.f32(0, model.facts().vocabulary())), null);
        Staging staging = staged(pieces, appended, List.of(), width(pieces), regime);
        float[] rows = step.within(() -> device.floats(ops.cast(model.hidden(ops, staging.batch(), cache), DType.F32)));
        pieces.forEach(piece -> piece.sequence.place.releaseUnseen(0));
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
        recorded.values().forEach(recording -> device.forget(recording.staging));
        step.close();
        session.close();
    }
}
