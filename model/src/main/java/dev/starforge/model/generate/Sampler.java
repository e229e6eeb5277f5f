package dev.starforge.model.generate;

import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.TokenWeights;
import dev.starforge.tensor.op.Decoding;
import java.util.Arrays;

/**
 * Samples the tokens of one sequence on the host. Each filter narrows a list of candidate ids that stays in ascending order,
 * so that the sampled token does not depend on how a filter selects. Ties at a boundary fall as in HF transformers.
 *
 * <p>Filters cost time only for the remaining candidates: top-k runs before the exponentials, and heaps replace sorting.
 * Parameters are rounded to float32 and the arithmetic is that of {@link TokenWeights}, so that device sampling ({@link
 * Decoding.Sample}) returns the same tokens.
 *
 * <p>The random number of token {@code i} is Philox of (seed, i): equal logits give equal text. Not thread-safe.
 */
public final class Sampler {
    private final SamplingParams params;
    private final float temperature;
    private final float[] scores; // [V]
    private final long[] weights; // [V]; valid for candidates
    private final int[] candidates; // remaining ids, ascending
    private final int[] counts; // [V] or empty, encoded as on the device
    private final long[] heap;
    private int[] seen = new int[16]; // ids with a count
    private int seenCount;
    private int candidateCount;
    private int generated;

    public Sampler(SamplingParams params, int vocabulary, int... prompt) {
        this.params = params;
        temperature = (float) params.temperature();
        boolean draws = temperature > 0;
        boolean selects = params.topK() > 0 || params.topP() < 1 || params.typicalP() < 1;
        scores = new float[vocabulary];
        weights = new long[draws ? vocabulary : 0];
        candidates = new int[draws ? vocabulary : 0];
        heap = new long[draws && selects ? vocabulary : 0];
        counts = new int[params.hasPenalties() ? vocabulary : 0];
        Arrays.fill(counts, Decoding.NEVER);
        for (int id : prompt) {
            count(id);
        }
    }

    /** Returns the probability of each token after a prompt and the tokens generated since. */
    public static float[] distribution(SamplingParams params, float[] logits, int[] prompt, int[] generated) {
        Sampler sampler = new Sampler(params, logits.length, prompt);
        for (int id : generated) {
            sampler.record(id);
        }
        return sampler.probabilities(logits);
    }

    public SamplingParams params() {
        return params;
    }

    /** Samples the next token. */
    public int next(float[] logits) {
        int best = score(logits);
        int id = temperature == 0 ? best : sample(best);
        record(id);
        return id;
    }

    /** Returns the distribution that {@link #next} samples from. */
    public float[] probabilities(float[] logits) {
        int best = score(logits);
        float[] probabilities = new float[scores.length];
        if (temperature == 0) {
            probabilities[best] = 1;
            return probabilities;
        }
        filter(best);
        long total = total();
        for (int i = 0; i < candidateCount; i++) {
            probabilities[candidates[i]] = TokenWeights.share(weights[candidates[i]], total);
        }
        return probabilities;
    }

    private void record(int id) {
        count(id);
        if (params.hasPenalties()) {
            counts[id]++;
        }
        generated++;
    }

    private void count(int id) {
        if (id < 0 || id >= scores.length) {
            throw new TensorException("sampling: token " + id + " is outside the vocabulary of " + scores.length);
        }
        if (params.hasPenalties() && counts[id] == Decoding.NEVER) {
            counts[id] = 0;
            if (seenCount == seen.length) {
                seen = Arrays.copyOf(seen, 2 * seenCount);
            }
            seen[seenCount++] = id;
        }
    }

    /** Computes the scores, logits after penalties. Returns the argmax, the lowest id among equals. */
    private int score(float[] logits) {
        if (logits.length != scores.length) {
            throw new TensorException(
                    "sampling: expected logits of " + scores.length + " tokens, got " + logits.length);
        }
        System.arraycopy(logits, 0, scores, 0, scores.length);
        penalize();
        int best = 0;
        for (int id = 0; id < scores.length; id++) {
            if (!(scores[id] < Float.POSITIVE_INFINITY)) {
                throw new TensorException("sampling: the score of token " + id + " is " + scores[id]);
            }
            if (scores[id] > scores[best]) {
                best = id;
            }
        }
        if (scores[best] == Float.NEGATIVE_INFINITY) {
            throw new TensorException("sampling: all " + scores.length + " logits are -Infinity");
        }
        return best;
    }

    private void penalize() {
        float repetition = (float) params.repetitionPenalty();
        float presence = (float) params.presencePenalty();
        float frequency = (float) params.frequencyPenalty();
        for (int i = 0; i < seenCount; i++) {
            int id = seen[i];
            scores[id] = TokenWeights.penalize(scores[id], counts[id], repetition, presence, frequency);
        }
    }

    /** Inverts the cumulative distribution in the order of ids. */
    private int sample(int best) {
        filter(best);
        long target = TokenWeights.draw(params.seed(), generated, total());
        int i = 0;
        for (long sum = weights[candidates[0]]; sum <= target; sum += weights[candidates[i]]) {
            i++;
        }
        return candidates[i];
    }

    private long total() {
        long total = 0;
        for (int i = 0; i < candidateCount; i++) {
            total += weights[candidates[i]];
        }
        return total;
    }

    private void filter(int best) {
        keepTopK();
        float top = scores[best];
        for (int i = 0; i < candidateCount; i++) {
            weights[candidates[i]] = TokenWeights.weight(distance(candidates[i], top));
        }
        keepTopP();
        keepMinP();
        keepTypical(top);
    }

    /** Keeps all tokens whose score is at least the k-th largest. */
    private void keepTopK() {
        float least = Float.NEGATIVE_INFINITY;
        int k = params.topK();
        if (k > 0 && k < scores.length) {
            for (int id = 0; id < k; id++) {
                heap[id] = key(id);
            }
            heapify(k);
            least = scores[(int) heap[0]];
            for (int id = k; id < scores.length; id++) {
                if (scores[id] > least) {
                    heap[0] = key(id);
                    siftDown(0, k);
                    least = scores[(int) heap[0]];
                }
            }
        }
        candidateCount = 0;
        for (int id = 0; id < scores.length; id++) {
            if (scores[id] >= least) {
                candidates[candidateCount++] = id;
            }
        }
    }

    /** As in HF, tokens are removed from the least likely up while their sum is at most 1 - p: among equals, low ids first. */
    private void keepTopP() {
        if (params.topP() == 1) {
            return;
        }
        for (int i = 0; i < candidateCount; i++) {
            heap[i] = ~key(candidates[i]);
        }
        heapify(candidateCount);
        long needed = TokenWeights.leaving((float) (1 - params.topP()), total());
        long least;
        int size = candidateCount;
        do {
            least = ~heap[0];
            needed -= weights[(int) least];
            heap[0] = heap[--size];
            siftDown(0, size);
        } while (needed > 0);
        int kept = 0;
        for (int i = 0; i < candidateCount; i++) {
            if (key(candidates[i]) >= least) {
                candidates[kept++] = candidates[i];
            }
        }
        candidateCount = kept;
    }

    private void keepMinP() {
        long least = TokenWeights.fixed((float) params.minP());
        int kept = 0;
        for (int i = 0; i < candidateCount; i++) {
            if (weights[candidates[i]] >= least) {
                candidates[kept++] = candidates[i];
            }
        }
        candidateCount = kept;
    }

    private void keepTypical(float top) {
        if ((float) params.typicalP() == 1) {
            return;
        }
        long total = total();
        long moment = 0;
        for (int i = 0; i < candidateCount; i++) {
            moment += TokenWeights.moment(weights[candidates[i]], distance(candidates[i], top));
        }
        float mean = TokenWeights.share(moment, total);
        for (int i = 0; i < candidateCount; i++) {
            heap[i] = (long) Float.floatToRawIntBits(TokenWeights.surprise(distance(candidates[i], top), mean)) << 32
                    | candidates[i];
        }
        heapify(candidateCount);
        long needed = TokenWeights.reaching((float) params.typicalP(), total);
        long last;
        int size = candidateCount;
        do {
            last = heap[0];
            needed -= weights[(int) last];
            heap[0] = heap[--size];
            siftDown(0, size);
        } while (needed > 0);
        float most = Float.intBitsToFloat((int) (last >> 32));
        int kept = 0;
        for (int i = 0; i < candidateCount; i++) {
            if (TokenWeights.surprise(distance(candidates[i], top), mean) <= most) {
                candidates[kept++] = candidates[i];
            }
        }
        candidateCount = kept;
    }

    private float distance(int id, float top) {
        return TokenWeights.distance(scores[id], top, temperature);
    }

    /** Orders tokens by score, then by id. */
    private long key(int id) {
        int bits = Float.floatToRawIntBits(scores[id] + 0.0f); // -0 becomes 0
        return (long) (bits ^ bits >> 31 & Integer.MAX_VALUE) << 32 | id;
    }

    private void heapify(int size) {
        for (int i = size / 2 - 1; i >= 0; i--) {
            siftDown(i, size);
        }
    }

    /** Restores the min-heap below {@code at}. */
    private void siftDown(int at, int size) {
        long key = heap[at];
        int hole = at;
        for (int child = 2 * hole + 1; child < size; child = 2 * hole + 1) {
            if (child + 1 < size && heap[child + 1] < heap[child]) {
                child++;
            }
            if (key <= heap[child]) {
                break;
            }
            heap[hole] = heap[child];
            hole = child;
        }
        heap[hole] = key;
    }
}
