package dev.starforge.cpu.rowwise;

import dev.starforge.cpu.core.Exp;
import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.TokenWeights;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Decoding.Setting;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * The next token of each row, one row to a worker. A row's candidates lie in the order of ids in three arrays, which every
 * step of the chain makes shorter: scores, ids (as floats, which hold them exactly) and exponentials. Nothing is sorted: what
 * a step keeps begins at a threshold, which {@link #threshold} finds among copies of ever fewer of them.
 */
public final class Sample {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final int ARRAYS = 5;
    private static final float UNIT = 1f / TokenWeights.ONE;

    private final View logits;
    private final View settings;
    private final View draws;
    private final View slots;
    private final View uses;
    private final View biased;
    private final View bias;
    private final View allowed;
    private final View[] out;
    private final int vocabulary;
    private final int padded;

    public Sample(View[] in, View[] out) {
        logits = in[0];
        settings = in[1];
        draws = in[2];
        slots = in[3];
        uses = in[4];
        biased = in[5];
        bias = in[6];
        allowed = in[7];
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
        double lse = slot < Decoding.NO_HISTORY ? Double.NaN : Softmax.logSumExp(logits, row, s, strips(at));
        int token = lse > Double.NEGATIVE_INFINITY && lse < Double.POSITIVE_INFINITY
                ? choose(row, slot, s, at)
                : Decoding.NO_TOKEN;
        boolean any = token != Decoding.NO_TOKEN;
        out[0].setIndex(row, token);
        out[1].set(row, any ? (float) (logits.at(row * vocabulary + token) - lse) : 0);
        int top = (int) out[2].last;
        if (any && top > 0) {
            likeliest(row, top, s, at);
        }
        for (int i = 0; i < top; i++) {
            out[2].setIndex(row * top + i, any ? (int) s[ids(at) + i] : Decoding.NO_TOKEN);
            out[3].set(row * top + i, any ? (float) (s[exps(at) + i] - lse) : 0);
        }
        if (any && slot >= 0) {
            long use = (long) slot * vocabulary + token;
            uses.setIndex(use, Math.max(0, uses.index(use)) + 1);
        }
    }

    private float setting(long row, Setting setting) {
        return settings.at(row * Setting.COUNT + setting.ordinal());
    }

    // Where a worker's arrays are; scores come first.

    private int ids(int at) {
        return at + padded;
    }

    private int exps(int at) {
        return at + 2 * padded;
    }

    private int values(int at) {
        return at + 3 * padded;
    }

    private int weights(int at) {
        return at + 4 * padded;
    }

    private int strips(int at) {
        return at + ARRAYS * padded;
    }

    private int choose(long row, int slot, float[] s, int at) {
        logits.load(row * vocabulary, vocabulary, s, at);
        Arrays.fill(s, at + vocabulary, at + padded, Float.NEGATIVE_INFINITY);
        addBias(row, s, at);
        if (slot >= 0) {
            penalize(row, slot, s, at);
        }
        if (allowed.last > 0) {
            mask(row, s, at);
        }
        float best = Softmax.max(s, at, vocabulary, strips(at));
        if (!(best > Float.NEGATIVE_INFINITY && best < Float.POSITIVE_INFINITY)) {
            return Decoding.NO_TOKEN;
        }
        if (setting(row, Setting.TEMPERATURE) > 0) {
            return draw(row, best, s, at);
        }
        int id = 0;
        while (s[at + id] != best) {
            id++;
        }
        return id;
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

    private void penalize(long row, int slot, float[] s, int at) {
        float repetition = setting(row, Setting.REPETITION_PENALTY);
        float presence = setting(row, Setting.PRESENCE_PENALTY);
        float frequency = setting(row, Setting.FREQUENCY_PENALTY);
        for (int id = 0; id < vocabulary; id++) {
            int count = uses.index((long) slot * vocabulary + id);
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
        float temperature = setting(row, Setting.TEMPERATURE);
        int n = keepTopK((int) setting(row, Setting.TOP_K), s, at);
        distances(s, at, exps(at), n, best, temperature);
        Exp.run(s, exps(at), n);
        n = keepTopP(setting(row, Setting.TAIL), n, s, at);
        n = keepMinP(setting(row, Setting.MIN_P), n, s, at);
        n = keepTypical(setting(row, Setting.TYPICAL_P), n, best, temperature, s, at);
        long seed = draws.index(3 * row) & 0xffffffffL | (long) draws.index(3 * row + 1) << 32;
        long target = TokenWeights.draw(seed, draws.index(3 * row + 2), total(s, exps(at), n));
        int i = 0;
        for (long sum = TokenWeights.fixed(s[exps(at)]); sum <= target; ) {
            sum += TokenWeights.fixed(s[exps(at) + ++i]);
        }
        return (int) s[ids(at) + i];
    }

    private static void distances(float[] s, int scores, int to, int n, float best, float temperature) {
        FloatVector by = FloatVector.broadcast(SPECIES, temperature);
        for (int i = 0; i < n; i += W) {
            FloatVector.fromArray(SPECIES, s, scores + i).sub(best).div(by).intoArray(s, to + i);
        }
    }

    private static long total(float[] s, int exps, int n) {
        long total = 0;
        for (int i = exps; i < exps + n; i++) {
            total += TokenWeights.fixed(s[i]);
        }
        return total;
    }

    /** Makes candidates of all scores, or of those no worse than the k-th best; what is -infinity is none. */
    private int keepTopK(int k, float[] s, int at) {
        float least = -Float.MAX_VALUE;
        if (k > 0 && k < vocabulary) {
            int n = 0;
            for (int id = 0; id < vocabulary; id++) {
                s[values(at) + n] = s[at + id];
                n += s[at + id] >= least ? 1 : 0;
            }
            if (n > k) {
                Arrays.fill(s, weights(at), weights(at) + n, UNIT);
                least = threshold(s, values(at), weights(at), n, k);
            }
        }
        int kept = 0;
        for (int id = 0; id < vocabulary; id++) {
            float score = s[at + id];
            s[at + kept] = score;
            s[ids(at) + kept] = id;
            kept += score >= least ? 1 : 0;
        }
        return kept;
    }

    /** Of equals at the threshold the higher ids are kept. */
    private int keepTopP(float tail, int n, float[] s, int at) {
        if (!(tail > 0)) {
            return n;
        }
        long needed = TokenWeights.leaving(tail, total(s, exps(at), n));
        System.arraycopy(s, at, s, values(at), n);
        System.arraycopy(s, exps(at), s, weights(at), n);
        float least = threshold(s, values(at), weights(at), n, needed);
        int equals = 0;
        long each = 0;
        for (int i = 0; i < n; i++) {
            if (s[at + i] > least) {
                needed -= TokenWeights.fixed(s[exps(at) + i]);
            } else if (s[at + i] == least) {
                equals++;
                each = TokenWeights.fixed(s[exps(at) + i]);
            }
        }
        long dropped = equals - Workers.count(needed, each);
        int kept = 0;
        for (int i = 0; i < n; i++) {
            boolean equal = s[at + i] == least;
            boolean keep = s[at + i] > least || equal && dropped <= 0;
            dropped -= equal ? 1 : 0;
            kept = keep(keep, i, kept, s, at);
        }
        return kept;
    }

    private int keepMinP(float minP, int n, float[] s, int at) {
        long least = TokenWeights.fixed(minP);
        int kept = 0;
        for (int i = 0; i < n && least > 0; i++) {
            kept = keep(TokenWeights.fixed(s[exps(at) + i]) >= least, i, kept, s, at);
        }
        return least > 0 ? kept : n;
    }

    private int keepTypical(float mass, int n, float best, float temperature, float[] s, int at) {
        if (!(mass < 1)) {
            return n;
        }
        long moment = 0;
        for (int i = 0; i < n; i++) {
            float z = TokenWeights.distance(s[at + i], best, temperature);
            moment += TokenWeights.moment(TokenWeights.fixed(s[exps(at) + i]), z);
        }
        long total = total(s, exps(at), n);
        float mean = TokenWeights.share(moment, total);
        for (int i = 0; i < n; i++) {
            float z = TokenWeights.distance(s[at + i], best, temperature);
            s[values(at) + i] = -TokenWeights.surprise(z, mean);
        }
        System.arraycopy(s, exps(at), s, weights(at), n);
        float least = threshold(s, values(at), weights(at), n, TokenWeights.reaching(mass, total));
        int kept = 0;
        for (int i = 0; i < n; i++) {
            float z = TokenWeights.distance(s[at + i], best, temperature);
            kept = keep(-TokenWeights.surprise(z, mean) >= least, i, kept, s, at);
        }
        return kept;
    }

    /** Moves candidate i to the end of those that are kept, and gives their number with or without it. */
    private int keep(boolean keep, int i, int kept, float[] s, int at) {
        s[at + kept] = s[at + i];
        s[ids(at) + kept] = s[ids(at) + i];
        s[exps(at) + kept] = s[exps(at) + i];
        return keep ? kept + 1 : kept;
    }

    /**
     * The highest value such that it and those above have the weight {@code needed}. Halves the range of the values and goes
     * on with the half that has it; both arrays are overwritten.
     */
    private static float threshold(float[] s, int values, int weights, int n, long needed) {
        while (true) {
            float low = Float.POSITIVE_INFINITY;
            float high = Float.NEGATIVE_INFINITY;
            for (int i = 0; i < n; i++) {
                low = Math.min(low, s[values + i]);
                high = Math.max(high, s[values + i]);
            }
            if (low == high) {
                return low;
            }
            float half = low + (high - low) / 2;
            float middle = half < high ? half : low;
            long above = 0;
            for (int i = 0; i < n; i++) {
                above += s[values + i] > middle ? TokenWeights.fixed(s[weights + i]) : 0;
            }
            boolean upper = above >= needed;
            needed -= upper ? 0 : above;
            int kept = 0;
            for (int i = 0; i < n; i++) {
                s[values + kept] = s[values + i];
                s[weights + kept] = s[weights + i];
                kept += s[values + i] > middle == upper ? 1 : 0;
            }
            n = kept;
        }
    }

    /** The ids of the highest logits, and these in the place of exponentials. */
    private void likeliest(long row, int top, float[] s, int at) {
        logits.load(row * vocabulary, vocabulary, s, at);
        int n = 0;
        for (int id = 0; id < vocabulary; id++) {
            float logit = s[at + id];
            if (n == top && !(logit > s[exps(at) + top - 1])) {
                continue;
            }
            n = Math.min(n + 1, top);
            int place = n - 1;
            for (; place > 0 && logit > s[exps(at) + place - 1]; place--) {
                s[exps(at) + place] = s[exps(at) + place - 1];
                s[ids(at) + place] = s[ids(at) + place - 1];
            }
            s[exps(at) + place] = logit;
            s[ids(at) + place] = id;
        }
    }
}
