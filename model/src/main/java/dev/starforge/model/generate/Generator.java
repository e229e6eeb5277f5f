package dev.starforge.model.generate;

import dev.starforge.model.Batches;
import dev.starforge.model.Model;
import dev.starforge.model.PagedKvCache;
import dev.starforge.tensor.Batch;
import dev.starforge.tensor.EagerOps;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Plain;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntPredicate;
import java.util.function.IntSupplier;

/**
 * Continues one sequence with the most likely tokens, or with those that a sampler chooses. The prompt goes through in
 * one step, then each token is a step of one row that the device may record once and replay: it reads its inputs from
 * tensors that stay, and leaves its token and logits in tensors that stay.
 */
public final class Generator implements AutoCloseable {
    private final Model model;
    private final Device device;
    private final Scope session;
    private final Scope step;
    private final EagerOps ops;
    private final PagedKvCache cache;
    private final PagedKvCache.Sequence sequence;
    private final Tensor logits;
    private final Tensor firstRow;
    private final List<Integer> fed = new ArrayList<>();
    private final int blocks;
    private Batch single;

    /** Room for {@code tokens} tokens, prompt included. */
    public Generator(Model model, Device device, Precision precision, Fallback fallback, int tokens) {
        this.model = model;
        this.device = device;
        session = new Scope(device);
        step = new Scope(device);
        ops = device.ops(step, precision, fallback);
        blocks = (tokens + PagedKvCache.BLOCK - 1) / PagedKvCache.BLOCK;
        try {
            cache = new PagedKvCache(model.facts(), blocks, ops.precision().kv(), session);
            sequence = cache.sequence();
            logits = session.allocate(Spec.f32(1, model.facts().vocabulary()));
            firstRow = session.allocate(Spec.i32(1));
            device.write(firstRow, 0);
            single = Batches.singles(session, 1, blocks, model.regime(0));
        } catch (RuntimeException | Error failure) {
            session.close();
            throw failure;
        }
    }

    /** Feeds tokens in one step. */
    public void feed(int... ids) {
        remember(ids);
        if (changesRegime()) {
            restart();
        } else {
            prefill(ids);
        }
    }

    /** Feeds one token in a step that is recorded and replayed where the device can. */
    public void feedOne(int id) {
        remember(id);
        if (changesRegime()) {
            restart();
        } else {
            Batches.refill(device, single, List.of(new Batches.Chunk(sequence, new int[] {id})));
            replay();
        }
    }

    private boolean changesRegime() {
        return model.regime(fed.size()) != single.regime();
    }

    /** Everything again in the regime of the present length: the cache of another one is of no use. */
    private void restart() {
        device.forget(this);
        sequence.close();
        single = Batches.singles(session, 1, blocks, model.regime(fed.size()));
        prefill(fed.stream().mapToInt(Integer::intValue).toArray());
    }

    private void prefill(int[] ids) {
        step.within(() -> forward(Batches.cached(model, step, List.of(new Batches.Chunk(sequence, ids)))));
    }

    /** Runs the last {@link #feedOne} again, from the same inputs. */
    public void replay() {
        device.replay(this, () -> step.within(() -> forward(single)));
    }

    private Batch forward(Batch batch) {
        ops.store(logits, firstRow, model.forward(ops, batch, cache));
        return batch;
    }

    private void remember(int... ids) {
        for (int id : ids) {
            if (id < 0 || id >= model.facts().vocabulary()) {
                throw new TensorException("token " + id + " is outside the vocabulary of "
                        + model.facts().vocabulary());
            }
        }
        for (int id : ids) {
            fed.add(id);
        }
    }

    /** Forgets everything fed so far. */
    public void rewind() {
        fed.clear();
        device.forget(this);
        sequence.close();
        single = Batches.singles(session, 1, blocks, model.regime(0));
    }

    /** Waits until the last step is done. */
    public void await() {
        device.synchronize();
    }

    /**
     * The most likely token after everything fed so far; the lowest among equals.
     *
     * @throws TensorException when a logit is NaN or infinite, so that none is the most likely
     */
    public int next() {
        return step.within(() -> {
            int best = device.ints(ops.run(new Plain.Argmax(), logits))[0];
            if (!Float.isFinite(device.floats(ops.run(new Plain.LogSumExp(), logits))[0])) {
                throw unusable(device.floats(logits));
            }
            return best;
        });
    }

    private TensorException unusable(float[] row) {
        int first = 0;
        int count = 0;
        int ruledOut = 0;
        for (int id = row.length - 1; id >= 0; id--) {
            ruledOut += row[id] == Float.NEGATIVE_INFINITY ? 1 : 0;
            if (!(row[id] < Float.POSITIVE_INFINITY)) {
                first = id;
                count++;
            }
        }
        return new TensorException("generate: no token can follow token " + (fed.size() - 1) + " of the sequence: "
                + (ruledOut == row.length
                        ? "all " + ruledOut + " logits are -Infinity"
                        : "expected finite logits, but " + count + " of " + row.length + " are not, the first is "
                                + row[first] + " of token " + first)
                + "; check the weights (and the adapter) for NaN, or try --weights f32");
    }

    /** The logits after everything fed so far. */
    public float[] logits() {
        return device.floats(logits);
    }

    /** The prompt's most likely continuation, up to {@code count} tokens, each told to {@code each} until it says stop. */
    public void greedy(int[] prompt, int count, IntPredicate each) {
        continued(prompt, this::next, count, each);
    }

    /** The same with tokens that a sampler chooses; each is told before the next is computed. */
    public void generate(int[] prompt, Sampler sampler, int count, IntPredicate each) {
        float[] row =
                new float[sampler.sampling().isArgmax() ? 0 : model.facts().vocabulary()];
        continued(prompt, row.length == 0 ? this::next : () -> sampled(sampler, row), count, each);
    }

    private int sampled(Sampler sampler, float[] row) {
        device.floats(logits, row);
        requireUsable(row);
        return sampler.next(row);
    }

    private void requireUsable(float[] row) {
        boolean possible = false;
        for (float logit : row) {
            if (!(logit < Float.POSITIVE_INFINITY)) {
                throw unusable(row);
            }
            possible |= logit > Float.NEGATIVE_INFINITY;
        }
        if (!possible) {
            throw unusable(row);
        }
    }

    private void continued(int[] prompt, IntSupplier choice, int count, IntPredicate each) {
        feed(prompt);
        for (int i = 0; i < count; i++) {
            int id = choice.getAsInt();
            if (!each.test(id) || i + 1 == count) {
                return;
            }
            feedOne(id);
        }
    }

    @Override
    public void close() {
        device.forget(this);
        step.close();
        session.close();
    }
}
