package dev.starforge.model.generate;

import dev.starforge.model.Model;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Plain;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;
import java.util.function.IntPredicate;

/**
 * Generates tokens for one sequence, greedily or with a sampler. It is an {@link Engine} with a single sequence: one prefill
 * step for the prompt, then one decode step for each token, which the device may capture once and replay.
 */
public final class Generator implements AutoCloseable {
    private final Model model;
    private final Device device;
    private final Engine engine;
    private Engine.Sequence sequence;
    private int resets;

    /** Creates a generator with a KV cache for {@code tokens} tokens, prompt included. */
    public Generator(Model model, Device device, Precision precision, Fallback fallback, int tokens) {
        this.model = model;
        this.device = device;
        engine = new Engine(model, device, precision, fallback, Math.max(1, Math.ceilDiv(tokens, Engine.BLOCK_SIZE)));
        sequence = engine.open(Engine.AdapterSlot.BASE, salt());
    }

    /** A new cache salt after each reset, so that nothing comes from the prefix cache and every run has the same steps. */
    private String salt() {
        return String.valueOf(resets++);
    }

    /** Appends tokens and computes them in one step. */
    public void feed(int... ids) {
        sequence.append(ids);
        engine.step(List.of(new Engine.SequenceChunk(sequence, sequence.pending(), 1)));
    }

    /** Appends one token and computes it in a decode step, which the device may capture and replay. */
    public void feedOne(int id) {
        feed(id);
    }

    /**
     * Appends tokens and returns the most likely next token, the lowest id among equals. The step samples on the device and
     * keeps no logits.
     *
     * @throws TensorException if a logit is NaN or infinite
     */
    public int nextGreedy(int... ids) {
        sequence.append(ids);
        Engine.RowSampling greedy =
                new Engine.RowSampling(SamplingParams.GREEDY, sequence.length(), Decoding.NO_HISTORY);
        Engine.SequenceChunk all = new Engine.SequenceChunk(sequence, sequence.pending(), 1);
        int best = engine.step(List.of(all), List.of(greedy), 0).tokens()[0];
        if (best == Decoding.NO_TOKEN) {
            int last = ids[ids.length - 1];
            sequence.truncate(sequence.length() - 1);
            feed(last);
            throw unusable(logits());
        }
        return best;
    }

    /** Runs the last {@link #feedOne} again with the same inputs. */
    public void replay() {
        engine.repeat();
    }

    /** Starts an empty sequence. */
    public void reset() {
        sequence.close();
        sequence = engine.open(Engine.AdapterSlot.BASE, salt());
    }

    /** Waits until the device has finished the last step. */
    public void synchronize() {
        device.synchronize();
    }

    /**
     * Returns the most likely token after the sequence, the lowest id among equals.
     *
     * @throws TensorException if a logit is NaN or infinite
     */
    public int next() {
        if (sequence.length() == 0) {
            throw new TensorException("generate: the sequence is empty; feed tokens first");
        }
        return engine.within(ops -> {
            int best = device.ints(ops.run(new Plain.Argmax(), engine.logits()))[0];
            if (!Float.isFinite(device.floats(ops.run(new Plain.LogSumExp(), engine.logits()))[0])) {
                throw unusable(device.floats(engine.logits()));
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
        return new TensorException(
                "generate: no token can follow token " + (sequence.length() - 1) + " of the sequence: "
                        + (ruledOut == row.length
                                ? "all " + ruledOut + " logits are -Infinity"
                                : "expected finite logits, but " + count + " of " + row.length
                                        + " are not, the first is " + row[first] + " of token " + first)
                        + "; check the weights (and the adapter) for NaN, or try --weights f32");
    }

    /** Returns the logits [V] after the last token. */
    public float[] logits() {
        return device.floats(engine.logits());
    }

    /** Generates up to {@code count} tokens greedily. Passes each token to {@code each} and stops when it returns false. */
    public void greedy(int[] prompt, int count, IntPredicate each) {
        int[] fed = prompt;
        for (int i = 0; i < count; i++) {
            int id = nextGreedy(fed);
            if (!each.test(id)) {
                return;
            }
            fed = new int[] {id};
        }
    }

    /** Generates up to {@code count} tokens with a sampler. Each token is passed on before the next is computed. */
    public void generate(int[] prompt, Sampler sampler, int count, IntPredicate each) {
        generate(prompt, TokenConstraint.NONE, sampler, count, each);
    }

    /** Generates up to {@code count} tokens that a constraint allows. */
    public void generate(int[] prompt, TokenConstraint constraint, Sampler sampler, int count, IntPredicate each) {
        float[] row = new float[model.info().vocabSize()];
        int[] generated = new int[count];
        int[] fed = prompt;
        Optional<BitSet> allowed = constraint.allowed();
        for (int i = 0; i < count; i++) {
            if (allowed.isEmpty() && sampler.params().isGreedy()) {
                greedy(fed, count - i, each);
                return;
            }
            feed(fed);
            generated[i] = sampled(sampler, allowed, row);
            if (!each.test(generated[i])) {
                return;
            }
            fed = new int[] {generated[i]};
            allowed = allowed.isEmpty() ? allowed : constraint.allowed(Arrays.copyOf(generated, i + 1));
        }
    }

    private int sampled(Sampler sampler, Optional<BitSet> allowed, float[] row) {
        device.floats(engine.logits(), row);
        requireUsable(row);
        allowed.ifPresent(ids -> {
            for (int id = ids.nextClearBit(0); id < row.length; id = ids.nextClearBit(id + 1)) {
                row[id] = Float.NEGATIVE_INFINITY;
            }
        });
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

    @Override
    public void close() {
        engine.close();
    }
}
