package dev.starforge.cpu.rowwise;

import dev.starforge.cpu.core.Exp;
import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.Sums;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.elementwise.Elementwise;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.TokenWeights;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Decoding.SamplerSetting;
import dev.starforge.tensor.op.Operands.SampleInputs;
import dev.starforge.tensor.op.Operands.SampleOutputs;
import java.nio.ByteOrder;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Samples the next token of each row, one row per worker. The candidates of a row are in three arrays in the order of
 * ids, and each sampler of the chain filters them: scores, ids and weights, all as floats, which represent them
 * exactly. Nothing is sorted: each sampler keeps the candidates above a threshold found by {@link Threshold}.
 */
public final class Sample {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final VectorSpecies<Integer> INTS = SPECIES.withLanes(int.class);
    private static final int W = Lanes.WIDTH;
    private static final int STRIP = Scratch.STRIP;
    private static final int ARRAYS = 5;
    private static final float ALL_WHOLE = 0x1p23f; // no float from here on has a fraction

    private final View logits;
    private final View settings;
    private final View draws;
    private final View slots;
    private final View uses;
    private final View biased;
    private final View bias;
    private final View allowed;
    private final SampleOutputs<View> out;
    private final int vocabulary;
    private final int padded;

    public Sample(SampleInputs<View> in, SampleOutputs<View> out) {
        logits = in.logits();
        settings = in.settings();
        draws = in.draws();
        slots = in.slots();
        uses = in.uses();
        biased = in.biased();
        bias = in.bias();
        allowed = in.allowed();
        this.out = out;
        vocabulary = (int) logits.last;
        padded = padded(vocabulary);
    }

    private static int padded(long vocabulary) {
        return Lanes.pad(vocabulary, 16);
    }

    public static Scratch scratch(Shape logits) {
        return new Scratch(0, Scratch.STRIPS.each() + (long) ARRAYS * padded(logits.last()));
    }

    public void run(Workers workers) {
        workers.rows(logits.rows, vocabulary, this::row);
    }

    private void row(long row, float[] s, int at) {
        int slot = slots.index(row);
        if (slot >= uses.rows) {
            throw new TensorException("Sample: slot " + slot + " of " + uses.rows);
        }
        double lse = slot < Decoding.NO_HISTORY ? Double.NaN : load(row, s, at);
        int token = Double.isFinite(lse) ? choose(row, slot, s, at) : Decoding.NO_TOKEN;
        boolean any = token != Decoding.NO_TOKEN;
        out.token().setIndex(row, token);
        out.logProbability().set(row, any ? (float) (logits.at(row * vocabulary + token) - lse) : 0);
        int top = (int) out.topIds().last;
        if (any && top > 0) {
            likeliest(row, top, s, at);
        }
        for (int i = 0; i < top; i++) {
            out.topIds().setIndex(row * top + i, any ? (int) s[ids(at) + i] : Decoding.NO_TOKEN);
            out.topLogProbabilities().set(row * top + i, any ? (float) (s[weights(at) + i] - lse) : 0);
        }
        if (any && slot >= 0) {
            long use = (long) slot * vocabulary + token;
            uses.setIndex(use, Math.max(0, uses.index(use)) + 1);
        }
    }

    private float setting(long row, SamplerSetting setting) {
        return settings.at(row * SamplerSetting.COUNT + setting.ordinal());
    }

    // Offsets of a worker's arrays; scores come first.

    private int ids(int at) {
        return at + padded;
    }

    private int weights(int at) {
        return at + 2 * padded;
    }

    /** Returns the offset of the two arrays for finding a threshold. */
    private int work(int at) {
        return at + 3 * padded;
    }

    private int strips(int at) {
        return at + ARRAYS * padded;
    }

    /**
     * Loads logits as scores and returns their log(sum(exp)): not finite if one is NaN or +infinity, or all are
     * -infinity.
     */
    private double load(long row, float[] s, int at) {
        logits.load(row * vocabulary, vocabulary, s, at);
        Arrays.fill(s, at + vocabulary, at + padded, Float.NEGATIVE_INFINITY);
        float max = Softmax.max(s, at, vocabulary, strips(at));
        double sum = 0;
        for (int i = 0; i < vocabulary; i += STRIP) {
            int count = Math.min(STRIP, vocabulary - i);
            System.arraycopy(s, at + i, s, strips(at), count);
            Elementwise.affine(s, strips(at), count, 1, -max);
            Exp.run(s, strips(at), count);
            sum += Sums.sum(s, strips(at), count, strips(at) + STRIP);
        }
        return max + StrictMath.log(sum);
    }

    private int choose(long row, int slot, float[] s, int at) {
        addBias(row, s, at);
        if (slot >= 0) {
            penalize(row, slot, s, at);
        }
        if (allowed.last > 0) {
            mask(row, s, at);
        }
        float best = Softmax.max(s, at, vocabulary, strips(at));
        if (!Float.isFinite(best)) {
            return Decoding.NO_TOKEN;
        }
        return setting(row, SamplerSetting.TEMPERATURE) > 0 ? draw(row, best, s, at) : first(best, s, at);
    }

    /** Returns the lowest id with this score. */
    private static int first(float score, float[] s, int at) {
        for (int id = 0; ; id += W) {
            VectorMask<Float> found = FloatVector.fromArray(SPECIES, s, at + id).compare(VectorOperators.EQ, score);
            if (found.anyTrue()) {
                return id + found.firstTrue();
            }
        }
    }

    private void addBias(long row, float[] s, int at) {
        for (long i = row * biased.last; i < (row + 1) * biased.last; i++) {
            int id = biased.index(i);
            if (id >= vocabulary) {
                throw new TensorException("Sample: a bias for token " + id + " of " + vocabulary);
            }
            if (id >= 0) {
                s[at + id] += bias.at(i);
            }
        }
    }

    /** Applies penalties. Most tokens do not occur in the history, so most vectors are skipped. */
    private void penalize(long row, int slot, float[] s, int at) {
        long first = (long) slot * vocabulary;
        int whole = SPECIES.loopBound(vocabulary);
        for (int id = 0; id < whole; id += W) {
            IntVector counts =
                    IntVector.fromMemorySegment(INTS, uses.segment, 4 * (first + id), ByteOrder.LITTLE_ENDIAN);
            if (counts.compare(VectorOperators.NE, Decoding.NEVER).anyTrue()) {
                penalize(row, first, id, id + W, s, at);
            }
        }
        penalize(row, first, whole, vocabulary, s, at);
    }

    private void penalize(long row, long first, int from, int to, float[] s, int at) {
        float repetition = setting(row, SamplerSetting.REPETITION_PENALTY);
        float presence = setting(row, SamplerSetting.PRESENCE_PENALTY);
        float frequency = setting(row, SamplerSetting.FREQUENCY_PENALTY);
        for (int id = from; id < to; id++) {
            int count = uses.index(first + id);
            if (count != Decoding.NEVER) {
                s[at + id] = TokenWeights.penalize(s[at + id], count, repetition, presence, frequency);
            }
        }
    }

    private void mask(long row, float[] s, int at) {
        for (int from = 0; from < vocabulary; from += Integer.SIZE) {
            int bits = allowed.index(row * allowed.last + from / Integer.SIZE);
            int end = Math.min(vocabulary, from + Integer.SIZE);
            if (bits == 0) {
                Arrays.fill(s, at + from, at + end, Float.NEGATIVE_INFINITY);
            } else if (bits != -1) {
                for (int id = from; id < end; id++) {
                    s[at + id] = (bits >> id - from & 1) == 0 ? Float.NEGATIVE_INFINITY : s[at + id];
                }
            }
        }
    }

    private int draw(long row, float best, float[] s, int at) {
        float temperature = setting(row, SamplerSetting.TEMPERATURE);
        int n = keepTopK((int) setting(row, SamplerSetting.TOP_K), s, at);
        distances(s, at, weights(at), n, best, temperature);
        Exp.run(s, weights(at), n);
        fix(s, weights(at), n);
        n = keepTopP(setting(row, SamplerSetting.TAIL), n, s, at);
        float lightest = Math.max(1, TokenWeights.fixed(setting(row, SamplerSetting.MIN_P)));
        n = keep(weights(at), lightest, n, s, at);
        n = keepTypical(setting(row, SamplerSetting.TYPICAL_P), n, best, temperature, s, at);
        long seed = draws.index(3 * row) & 0xffffffffL | (long) draws.index(3 * row + 1) << 32;
        long target = TokenWeights.draw(seed, draws.index(3 * row + 2), Threshold.total(s, weights(at), n));
        int i = 0;
        for (long sum = (long) s[weights(at)]; sum <= target; ) {
            sum += (long) s[weights(at) + ++i];
        }
        return (int) s[ids(at) + i];
    }

    private static void distances(float[] s, int scores, int to, int n, float best, float temperature) {
        FloatVector by = FloatVector.broadcast(SPECIES, temperature);
        for (int i = 0; i < n; i += W) {
            FloatVector.fromArray(SPECIES, s, scores + i).sub(best).div(by).intoArray(s, to + i);
        }
    }

    /** Converts exponentials to weights: {@link TokenWeights#fixed}. */
    private static void fix(float[] s, int weights, int n) {
        for (int i = 0; i < n; i += W) {
            FloatVector x = FloatVector.fromArray(SPECIES, s, weights + i).mul((float) TokenWeights.ONE);
            VectorMask<Float> fraction = x.compare(VectorOperators.LT, ALL_WHOLE);
            FloatVector whole = (FloatVector) x.convert(VectorOperators.F2I, 0).convert(VectorOperators.I2F, 0);
            x.blend(whole, fraction).intoArray(s, weights + i);
        }
    }

    /** Keeps the candidates whose value is at least {@code least}. Returns their number. */
    private int keep(int values, float least, int n, float[] s, int at) {
        return new Candidates(s, at, padded, 3).keep(values, least, true, n);
    }

    /** Makes candidates of all scores, or of those at least the k-th best. Scores of -infinity are excluded. */
    private int keepTopK(int k, float[] s, int at) {
        for (int id = 0; id < vocabulary; id++) {
            s[ids(at) + id] = id;
        }
        int n = keep(at, -Float.MAX_VALUE, vocabulary, s, at);
        if (k == 0 || k >= n) {
            return n;
        }
        System.arraycopy(s, at, s, work(at), n);
        Arrays.fill(s, work(at) + padded, work(at) + padded + n, 1);
        return keep(at, Threshold.find(new Candidates(s, work(at), padded, 2), n, k), n, s, at);
    }

    /** Top-p. Of equal values at the threshold, the higher ids are kept. */
    private int keepTopP(float tail, int n, float[] s, int at) {
        if (!(tail > 0)) {
            return n;
        }
        long needed = TokenWeights.leaving(tail, Threshold.total(s, weights(at), n));
        System.arraycopy(s, at, s, work(at), n);
        System.arraycopy(s, weights(at), s, work(at) + padded, n);
        float least = Threshold.find(new Candidates(s, work(at), padded, 2), n, needed);
        long missing = needed - Threshold.atLeast(Math.nextUp(least), s, at, weights(at), n);
        for (int i = n - 1; i >= 0; i--) {
            if (s[at + i] == least) {
                s[at + i] = missing > 0 ? least : Float.NEGATIVE_INFINITY;
                missing -= (long) s[weights(at) + i];
            }
        }
        return keep(at, least, n, s, at);
    }

    private int keepTypical(float mass, int n, float best, float temperature, float[] s, int at) {
        if (!(mass < 1)) {
            return n;
        }
        distances(s, at, work(at), n, best, temperature);
        long moment = 0;
        for (int i = 0; i < n; i++) {
            moment += TokenWeights.moment((long) s[weights(at) + i], s[work(at) + i]);
        }
        long total = Threshold.total(s, weights(at), n);
        float mean = TokenWeights.share(moment, total);
        expectations(s, work(at), n, mean);
        System.arraycopy(s, weights(at), s, work(at) + padded, n);
        float least = Threshold.find(new Candidates(s, work(at), padded, 2), n, TokenWeights.reaching(mass, total));
        distances(s, at, work(at), n, best, temperature);
        expectations(s, work(at), n, mean);
        return keep(work(at), least, n, s, at);
    }

    /** Replaces each z by minus its {@link TokenWeights#surprise}, for typical sampling. */
    private static void expectations(float[] s, int z, int n, float mean) {
        for (int i = 0; i < n; i += W) {
            FloatVector.fromArray(SPECIES, s, z + i).sub(mean).abs().neg().intoArray(s, z + i);
        }
    }

    /** Collects the ids of the highest logits, with the logits in the array of weights. */
    private void likeliest(long row, int top, float[] s, int at) {
        logits.load(row * vocabulary, vocabulary, s, at);
        int values = weights(at);
        int n = 0;
        for (int id = 0; id < vocabulary; id++) {
            float logit = s[at + id];
            if (n == top && !(logit > s[values + top - 1])) {
                continue;
            }
            n = Math.min(n + 1, top);
            int place = n - 1;
            for (; place > 0 && logit > s[values + place - 1]; place--) {
                s[values + place] = s[values + place - 1];
                s[ids(at) + place] = s[ids(at) + place - 1];
            }
            s[values + place] = logit;
            s[ids(at) + place] = id;
        }
    }
}
