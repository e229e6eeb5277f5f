package dev.starforge.model.generate;

import dev.starforge.tensor.Philox;
import dev.starforge.tensor.TensorException;
import java.util.Arrays;

/**
 * Chooses the tokens of one text, on the host. Each step of the chain narrows a list of ids that stays in ascending
 * order, so that the draw does not depend on how a step found what to keep; ties at a border fall as in HF.
 *
 * <p>Only the tokens that a step lets through cost the next one anything, so top-k comes before the exponentials, and
 * no step sorts: heaps give up just as many tokens as are wanted. The temperature divides distances to the best score,
 * never the scores, and so cannot overflow. Sums are in double; they are compared as floats where HF's are floats, which
 * decides whether ten equal tokens at top-p 0.9 leave ten or nine.
 *
 * <p>The draw for token {@code i} is Philox of (seed, i): the same request gives the same text wherever its logits are
 * the same. For one thread.
 */
public final class Sampler {
    private static final int SITE = 0x73616d70;
    private static final int NEVER = -1;

    private final Sampling sampling;
    private final float[] scores; // [V]
    private final double[] weights; // [V], exp of the distance to the best score; valid for what is alive
    private final int[] alive; // ids still possible, ascending
    private final int[] uses; // [V] or none: NEVER, 0 for a token of the prompt alone, else how often it was generated
    private final long[] heap;
    private int[] seen = new int[16]; // the ids with a use
    private int seenCount;
    private int aliveCount;
    private int generated;

    public Sampler(Sampling sampling, int vocabulary, int... prompt) {
        this.sampling = sampling;
        boolean draws = sampling.temperature() > 0;
        boolean selects = sampling.topK() > 0 || sampling.topP() < 1 || sampling.typicalP() < 1;
        scores = new float[vocabulary];
        weights = new double[draws ? vocabulary : 0];
        alive = new int[draws ? vocabulary : 0];
        heap = new long[draws && selects ? vocabulary : 0];
        uses = new int[sampling.penalizes() ? vocabulary : 0];
        Arrays.fill(uses, NEVER);
        for (int id : prompt) {
            see(id);
        }
    }

    /** The probability of each token after a prompt and what was generated since. */
    public static float[] distribution(Sampling sampling, float[] logits, int[] prompt, int[] generated) {
        Sampler sampler = new Sampler(sampling, logits.length, prompt);
        for (int id : generated) {
            sampler.remember(id);
        }
        return sampler.probabilities(logits);
    }

    public Sampling sampling() {
        return sampling;
    }

    /** Draws the next token of the text. */
    public int next(float[] logits) {
        int best = score(logits);
        int id = sampling.temperature() == 0 ? best : draw(best);
        remember(id);
        return id;
    }

    /** What {@link #next} would draw from. */
    public float[] probabilities(float[] logits) {
        int best = score(logits);
        float[] probabilities = new float[scores.length];
        if (sampling.temperature() == 0) {
            probabilities[best] = 1;
            return probabilities;
        }
        narrow(best);
        double total = total();
        for (int i = 0; i < aliveCount; i++) {
            probabilities[alive[i]] = (float) (weights[alive[i]] / total);
        }
        return probabilities;
    }

    private void remember(int id) {
        see(id);
        if (sampling.penalizes()) {
            uses[id]++;
        }
        generated++;
    }

    private void see(int id) {
        if (id < 0 || id >= scores.length) {
            throw new TensorException("sampling: token " + id + " is outside the vocabulary of " + scores.length);
        }
        if (sampling.penalizes() && uses[id] == NEVER) {
            uses[id] = 0;
            if (seenCount == seen.length) {
                seen = Arrays.copyOf(seen, 2 * seenCount);
            }
            seen[seenCount++] = id;
        }
    }

    /** Fills the scores, penalties applied; returns the best, the lowest id among equals. */
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
            throw new TensorException("sampling: all " + scores.length + " tokens are ruled out");
        }
        return best;
    }

    private void penalize() {
        float repetition = (float) sampling.repetitionPenalty();
        for (int i = 0; i < seenCount; i++) {
            int id = seen[i];
            float score = scores[id] < 0 ? scores[id] * repetition : scores[id] / repetition;
            if (uses[id] > 0) {
                score -= (float) (sampling.presencePenalty() + uses[id] * sampling.frequencyPenalty());
            }
            scores[id] = score;
        }
    }

    /** Inverts the cumulative distribution in the order of ids. */
    private int draw(int best) {
        narrow(best);
        double target = Philox.uniform(sampling.seed(), SITE, generated) * total();
        double sum = 0;
        for (int i = 0; i < aliveCount; i++) {
            sum += weights[alive[i]];
            if (sum > target) {
                return alive[i];
            }
        }
        return best; // not reached: the sum ends as the total, and the uniform is below 1
    }

    private double total() {
        double total = 0;
        for (int i = 0; i < aliveCount; i++) {
            total += weights[alive[i]];
        }
        return total;
    }

    private void narrow(int best) {
        keepTopK();
        double top = scores[best];
        for (int i = 0; i < aliveCount; i++) {
            weights[alive[i]] = StrictMath.exp((scores[alive[i]] - top) / sampling.temperature());
        }
        keepTopP();
        keepMinP();
        keepTypical(top);
    }

    /** All with a score no worse than that of the k-th best. */
    private void keepTopK() {
        float least = Float.NEGATIVE_INFINITY;
        int k = sampling.topK();
        if (k > 0 && k < scores.length) {
            for (int id = 0; id < k; id++) {
                heap[id] = key(id);
            }
            heapify(k);
            least = scores[(int) heap[0]];
            for (int id = k; id < scores.length; id++) {
                if (scores[id] > least) {
                    heap[0] = key(id);
                    sink(0, k);
                    least = scores[(int) heap[0]];
                }
            }
        }
        aliveCount = 0;
        for (int id = 0; id < scores.length; id++) {
            if (scores[id] >= least) {
                alive[aliveCount++] = id;
            }
        }
    }

    /** HF drops from the worst up while the sum is at most 1 - p, so of equal tokens at the border the low ids go. */
    private void keepTopP() {
        if (sampling.topP() == 1) {
            return;
        }
        for (int i = 0; i < aliveCount; i++) {
            heap[i] = ~key(alive[i]);
        }
        heapify(aliveCount);
        float spare = (float) (1 - sampling.topP());
        double total = total();
        double rest = total;
        long least;
        int size = aliveCount;
        do {
            least = ~heap[0];
            rest -= weights[(int) least];
            heap[0] = heap[--size];
            sink(0, size);
        } while (size > 0 && (float) (rest / total) > spare);
        int kept = 0;
        for (int i = 0; i < aliveCount; i++) {
            if (key(alive[i]) >= least) {
                alive[kept++] = alive[i];
            }
        }
        aliveCount = kept;
    }

    private void keepMinP() {
        float least = (float) sampling.minP();
        int kept = 0;
        for (int i = 0; i < aliveCount; i++) {
            if ((float) weights[alive[i]] >= least) {
                alive[kept++] = alive[i];
            }
        }
        aliveCount = kept;
    }

    /**
     * How far a token's surprise is from the entropy. With z the distance to the best score over the temperature,
     * log p is z - log(total) and the entropy log(total) - E[z], so that this is |z - E[z]|.
     */
    private void keepTypical(double top) {
        if (sampling.typicalP() == 1) {
            return;
        }
        double total = total();
        double mean = 0;
        for (int i = 0; i < aliveCount; i++) {
            double weight = weights[alive[i]];
            mean += weight == 0 ? 0 : weight / total * distance(alive[i], top);
        }
        for (int i = 0; i < aliveCount; i++) {
            heap[i] = (long) Float.floatToRawIntBits(shiftedScore(alive[i], top, mean)) << 32 | alive[i];
        }
        heapify(aliveCount);
        float mass = (float) sampling.typicalP();
        double sum = 0;
        long last;
        int size = aliveCount;
        do {
            last = heap[0];
            sum += weights[(int) last];
            heap[0] = heap[--size];
            sink(0, size);
        } while (size > 0 && (float) (sum / total) < mass);
        float most = Float.intBitsToFloat((int) (last >> 32));
        int kept = 0;
        for (int i = 0; i < aliveCount; i++) {
            if (shiftedScore(alive[i], top, mean) <= most) {
                alive[kept++] = alive[i];
            }
        }
        aliveCount = kept;
    }

    private double distance(int id, double top) {
        return (scores[id] - top) / sampling.temperature();
    }

    private float shiftedScore(int id, double top, double mean) {
        return (float) Math.abs(distance(id, top) - mean);
    }

    /** Orders tokens by score, then by id. */
    private long key(int id) {
        int bits = Float.floatToRawIntBits(scores[id] + 0.0f); // -0 becomes 0
        return (long) (bits ^ bits >> 31 & Integer.MAX_VALUE) << 32 | id;
    }

    private void heapify(int size) {
        for (int i = size / 2 - 1; i >= 0; i--) {
            sink(i, size);
        }
    }

    /** The smallest key is on top. */
    private void sink(int at, int size) {
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
