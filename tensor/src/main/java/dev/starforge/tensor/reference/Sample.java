package dev.starforge.tensor.reference;

import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.TokenWeights;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Decoding.SamplerSetting;
import dev.starforge.tensor.op.Operands.SampleInputs;
import dev.starforge.tensor.op.Operands.SampleOutputs;
import java.util.Arrays;
import java.util.Comparator;
import java.util.stream.IntStream;

/** One row at a time, with full sorts. A token that a step leaves out has weight 0 from then on. */
final class Sample {
    private final SampleInputs<View> in;
    private final SampleOutputs<View> out;
    private final int row;
    private final int vocabulary;
    private final int slot;

    private Sample(SampleInputs<View> in, SampleOutputs<View> out, int row) {
        this.in = in;
        this.out = out;
        this.row = row;
        this.vocabulary = (int) in.logits().last;
        this.slot = in.slots().index(row);
        if (slot >= in.uses().rows) {
            throw new TensorException("Sample: slot " + slot + " of " + in.uses().rows);
        }
    }

    static void run(SampleInputs<View> in, SampleOutputs<View> out) {
        for (int row = 0; row < in.logits().rows; row++) {
            new Sample(in, out, row).run();
        }
    }

    private void run() {
        int token = slot < Decoding.NO_HISTORY ? Decoding.NO_TOKEN : choose();
        if (token == Decoding.NO_TOKEN) {
            report(token, 0, new int[0]);
            return;
        }
        if (slot >= 0) {
            in.uses().setIndex(use(token), Math.max(0, in.uses().index(use(token))) + 1);
        }
        report(token, Softmax.logSumExp(in.logits(), row), ordered(logits(), Comparator.naturalOrder()));
    }

    private long use(int id) {
        return (long) slot * vocabulary + id;
    }

    private float setting(SamplerSetting setting) {
        return (float) in.settings().at((long) row * SamplerSetting.COUNT + setting.ordinal());
    }

    /** No ids: no token, and nothing to say of the others. */
    private void report(int token, double lse, int[] likeliest) {
        int top = (int) out.topIds().last;
        out.token().set(row, token);
        out.logProbability().set(row, token < 0 ? 0 : in.logits().at((long) row * vocabulary + token) - lse);
        for (int i = 0; i < top; i++) {
            boolean any = likeliest.length > 0;
            out.topIds().set((long) row * top + i, any ? likeliest[i] : Decoding.NO_TOKEN);
            out.topLogProbabilities()
                    .set((long) row * top + i, any ? in.logits().at((long) row * vocabulary + likeliest[i]) - lse : 0);
        }
    }

    private float[] logits() {
        float[] logits = new float[vocabulary];
        for (int id = 0; id < vocabulary; id++) {
            logits[id] = (float) in.logits().at((long) row * vocabulary + id);
        }
        return logits;
    }

    /** Ids from the highest value to the lowest; equals in this order. */
    private static int[] ordered(float[] values, Comparator<Integer> equals) {
        return IntStream.range(0, values.length)
                .boxed()
                .sorted(Comparator.<Integer>comparingDouble(id -> -(values[id] + 0.0f))
                        .thenComparing(equals))
                .mapToInt(Integer::intValue)
                .toArray();
    }

    private int choose() {
        float[] logits = logits();
        float[] scores = scores(logits);
        for (int id = 0; id < vocabulary; id++) {
            if (!(logits[id] < Float.POSITIVE_INFINITY) || !(scores[id] < Float.POSITIVE_INFINITY)) {
                return Decoding.NO_TOKEN;
            }
        }
        int best = ordered(scores, Comparator.naturalOrder())[0];
        if (scores[best] == Float.NEGATIVE_INFINITY) {
            return Decoding.NO_TOKEN;
        }
        return setting(SamplerSetting.TEMPERATURE) > 0 ? draw(scores, scores[best]) : best;
    }

    private float[] scores(float[] logits) {
        float[] scores = logits.clone();
        for (long i = row * in.biased().last; i < (row + 1) * in.biased().last; i++) {
            int id = in.biased().index(i);
            if (id >= vocabulary) {
                throw new TensorException("Sample: a bias for token " + id + " of " + vocabulary);
            }
            if (id >= 0) {
                scores[id] += (float) in.bias().at(i);
            }
        }
        for (int id = 0; id < vocabulary; id++) {
            if (slot >= 0 && in.uses().index(use(id)) != Decoding.NEVER) {
                scores[id] = TokenWeights.penalize(
                        scores[id],
                        in.uses().index(use(id)),
                        setting(SamplerSetting.REPETITION_PENALTY),
                        setting(SamplerSetting.PRESENCE_PENALTY),
                        setting(SamplerSetting.FREQUENCY_PENALTY));
            }
            if (in.allowed().last > 0 && (in.allowed().index(row * in.allowed().last + id / 32) >> id % 32 & 1) == 0) {
                scores[id] = Float.NEGATIVE_INFINITY;
            }
        }
        return scores;
    }

    private int draw(float[] scores, float best) {
        float[] z = new float[vocabulary];
        long[] weights = new long[vocabulary];
        for (int id = 0; id < vocabulary; id++) {
            z[id] = TokenWeights.distance(scores[id], best, setting(SamplerSetting.TEMPERATURE));
            weights[id] = TokenWeights.weight(z[id]);
        }
        keepTopK(scores, weights);
        keepTopP(scores, weights);
        keepMinP(weights);
        keepTypical(z, weights);
        long seed = in.draws().index(3L * row) & 0xffffffffL | (long) in.draws().index(3L * row + 1) << 32;
        long target = TokenWeights.draw(
                seed, in.draws().index(3L * row + 2), Arrays.stream(weights).sum());
        int id = 0;
        for (long sum = weights[0]; sum <= target; sum += weights[id]) {
            id++;
        }
        return id;
    }

    /** All with a score no worse than that of the k-th best. */
    private void keepTopK(float[] scores, long[] weights) {
        int k = (int) setting(SamplerSetting.TOP_K);
        if (k > 0 && k < vocabulary) {
            float least = scores[ordered(scores, Comparator.naturalOrder())[k - 1]];
            for (int id = 0; id < vocabulary; id++) {
                weights[id] = scores[id] >= least ? weights[id] : 0;
            }
        }
    }

    /** From the best on, of equals the higher id first, as many as are needed: HF drops from the other end. */
    private void keepTopP(float[] scores, long[] weights) {
        float tail = setting(SamplerSetting.TAIL);
        if (tail > 0) {
            long needed = TokenWeights.leaving(tail, Arrays.stream(weights).sum());
            for (int id : ordered(scores, Comparator.reverseOrder())) {
                long weight = weights[id];
                weights[id] = needed > 0 ? weight : 0;
                needed -= weight;
            }
        }
    }

    private void keepMinP(long[] weights) {
        long least = TokenWeights.fixed(setting(SamplerSetting.MIN_P));
        for (int id = 0; id < vocabulary; id++) {
            weights[id] = weights[id] >= least ? weights[id] : 0;
        }
    }

    /** From the most expected surprise on as many as are needed, and their equals. */
    private void keepTypical(float[] z, long[] weights) {
        if (setting(SamplerSetting.TYPICAL_P) >= 1) {
            return;
        }
        long total = Arrays.stream(weights).sum();
        long moment = 0;
        for (int id = 0; id < vocabulary; id++) {
            moment += TokenWeights.moment(weights[id], z[id]);
        }
        float mean = TokenWeights.share(moment, total);
        float[] typical = new float[vocabulary];
        for (int id = 0; id < vocabulary; id++) {
            typical[id] = -TokenWeights.surprise(z[id], mean);
        }
        long needed = TokenWeights.reaching(setting(SamplerSetting.TYPICAL_P), total);
        float least = Float.NEGATIVE_INFINITY;
        for (int id : ordered(typical, Comparator.naturalOrder())) {
            least = needed > 0 ? typical[id] : least;
            needed -= weights[id];
        }
        for (int id = 0; id < vocabulary; id++) {
            weights[id] = typical[id] >= least ? weights[id] : 0;
        }
    }
}
