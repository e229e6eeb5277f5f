package dev.starforge.model;

import dev.starforge.tensor.Batch;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.EagerOps;
import dev.starforge.tensor.Fallback;
import dev.starforge.tensor.Plain;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import java.util.List;
import java.util.Map;
import java.util.function.IntPredicate;

/**
 * Continues one sequence with the most likely tokens. The prompt goes through in one step, then each token is a step of
 * one row that the device may record once and replay: it reads its inputs from tensors that stay, and leaves its token
 * and logits in tensors that stay.
 */
public final class Generator implements AutoCloseable {
    private final Model model;
    private final Device device;
    private final Scope session;
    private final Scope step;
    private final EagerOps ops;
    private final PagedKvCache cache;
    private final PagedKvCache.Place place;
    private final Tensor logits;
    private final Tensor firstRow;
    private final Batch single;

    /** Room for {@code tokens} tokens, prompt included. */
    public Generator(Model model, Device device, Precision precision, Fallback fallback, int tokens) {
        this.model = model;
        this.device = device;
        session = new Scope(device);
        step = new Scope(device);
        ops = device.ops(step, precision, fallback);
        int blocks = (tokens + PagedKvCache.BLOCK - 1) / PagedKvCache.BLOCK;
        cache = new PagedKvCache(model.facts(), blocks, precision.kv(), session);
        place = cache.place();
        logits = session.allocate(Spec.f32(1, model.facts().vocabulary()));
        firstRow = session.allocate(Spec.i32(1));
        device.write(firstRow, 0);
        single = Batches.singles(session, 1, blocks);
    }

    /** Feeds tokens in one step. */
    public void feed(int... ids) {
        checkIds(ids);
        step.mark();
        forward(Batches.cached(step, List.of(new Batches.Turn(place, ids))));
        step.release();
    }

    /** Feeds one token in a step that is recorded and replayed where the device can. */
    public void feedOne(int id) {
        checkIds(id);
        Batches.refill(device, single, List.of(new Batches.Turn(place, new int[] {id})));
        replay();
    }

    /** Runs the last {@link #feedOne} again, from the same inputs. */
    public void replay() {
        device.replay(this, () -> {
            step.mark();
            forward(single);
            step.release();
        });
    }

    private void forward(Batch batch) {
        ops.store(logits, firstRow, model.forward(ops, batch, cache));
    }

    private void checkIds(int... ids) {
        for (int id : ids) {
            if (id < 0 || id >= model.facts().vocabulary()) {
                throw new TensorException("token " + id + " is outside the vocabulary of "
                        + model.facts().vocabulary());
            }
        }
    }

    /** The most likely token after everything fed so far; the lowest among equals. */
    public int next() {
        step.mark();
        int id = device.ints(ops.run(new Plain.Argmax(), logits))[0];
        step.release();
        return id;
    }

    /** The logits after everything fed so far. */
    public float[] logits() {
        return device.floats(logits);
    }

    /** The prompt's most likely continuation, up to {@code count} tokens, each told to {@code each} until it says stop. */
    public void greedy(int[] prompt, int count, IntPredicate each) {
        feed(prompt);
        for (int i = 0; i < count; i++) {
            int id = next();
            if (!each.test(id) || i + 1 == count) {
                return;
            }
            feedOne(id);
        }
    }

    /** How often each operation ran as its expansion. */
    public Map<String, Long> fallbacks() {
        return ops.fallbacks();
    }

    @Override
    public void close() {
        device.forget(this);
        step.close();
        session.close();
    }
}
