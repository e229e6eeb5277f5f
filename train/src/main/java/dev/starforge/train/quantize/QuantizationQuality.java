package dev.starforge.train.quantize;

import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Ops;
import java.nio.file.Path;
import java.util.List;
import java.util.function.IntConsumer;
import tools.jackson.databind.node.ObjectNode;

/**
 * How much a quantized model differs from its original on held-out text, measured as llama-perplexity does: over the second half
 * of each sequence, where every token has at least half a sequence of context.
 *
 * @param tokens predicted tokens
 * @param perplexity of the quantized model
 * @param originalPerplexity of the original
 * @param kl mean KL divergence of the quantized model's next-token distribution from the original's, in nats
 * @param klError standard error of that mean
 * @param sameTop share of tokens for which both models rank the same token first
 */
public record QuantizationQuality(
        long tokens, double perplexity, double originalPerplexity, double kl, double klError, double sameTop) {
    /** Measures a model against its original; both are loaded at once. */
    public static QuantizationQuality measure(
            Path original, Path quantized, CalibrationText text, Device device, Precision precision, IntConsumer done) {
        try (ModelFiles originalFiles = ModelFiles.open(original);
                ModelFiles quantizedFiles = ModelFiles.open(quantized);
                Scope weights = new Scope(device)) {
            Model p = originalFiles.load(weights, precision);
            Model q = quantizedFiles.load(weights, precision);
            Sums sums = new Sums(p.info().vocabSize());
            int chunks = 0;
            for (int[] chunk : text.chunks()) {
                sums.add(chunk, logits(p, chunk, device, precision), logits(q, chunk, device, precision));
                done.accept(++chunks);
            }
            return sums.result();
        }
    }

    /** Returns the logits of the second half of a sequence, without its last token. */
    private static float[] logits(Model model, int[] chunk, Device device, Precision precision) {
        try (Scope step = new Scope(device)) {
            Ops ops = device.ops(step, precision, Fallback.QUIET);
            Tensor hidden = model.hiddenStates(ops, Batches.packed(model, step, List.of(chunk)), KvCache.NONE);
            long columns = hidden.dim(1);
            long first = chunk.length / 2;
            Tensor half = hidden.view(first * columns, Shape.of(chunk.length - 1 - first, columns));
            return device.floats(model.logits(ops, half));
        }
    }

    /** Adds this to a JSON report. */
    public void report(ObjectNode json) {
        json.put("tokens", tokens)
                .put("perplexity", perplexity)
                .put("original_perplexity", originalPerplexity)
                .put("kl_divergence", kl)
                .put("kl_standard_error", klError)
                .put("same_top_token", sameTop);
    }

    /** Sums over tokens, in double precision. */
    private static final class Sums {
        private final int vocabulary;
        private long tokens;
        private double nats;
        private double originalNats;
        private double kl;
        private double klSquared;
        private long same;

        Sums(int vocabulary) {
            this.vocabulary = vocabulary;
        }

        void add(int[] chunk, float[] p, float[] q) {
            int first = chunk.length / 2;
            for (int row = 0; row < chunk.length - 1 - first; row++) {
                add(p, q, row * vocabulary, chunk[first + row + 1]);
            }
        }

        private void add(float[] p, float[] q, int at, int next) {
            double pNorm = logSumExp(p, at);
            double qNorm = logSumExp(q, at);
            double divergence = 0;
            int pTop = at;
            int qTop = at;
            for (int i = at; i < at + vocabulary; i++) {
                double logP = p[i] - pNorm;
                divergence += Math.exp(logP) * (logP - (q[i] - qNorm));
                pTop = p[i] > p[pTop] ? i : pTop;
                qTop = q[i] > q[qTop] ? i : qTop;
            }
            tokens++;
            originalNats += pNorm - p[at + next];
            nats += qNorm - q[at + next];
            kl += divergence;
            klSquared += divergence * divergence;
            same += pTop == qTop ? 1 : 0;
        }

        private double logSumExp(float[] logits, int at) {
            double max = Double.NEGATIVE_INFINITY;
            for (int i = at; i < at + vocabulary; i++) {
                max = Math.max(max, logits[i]);
            }
            double sum = 0;
            for (int i = at; i < at + vocabulary; i++) {
                sum += Math.exp(logits[i] - max);
            }
            return max + Math.log(sum);
        }

        QuantizationQuality result() {
            double mean = kl / tokens;
            double variance = Math.max(0, klSquared / tokens - mean * mean);
            return new QuantizationQuality(
                    tokens,
                    Math.exp(nats / tokens),
                    Math.exp(originalNats / tokens),
                    mean,
                    Math.sqrt(variance / tokens),
                    (double) same / tokens);
        }
    }
}
