package dev.starforge.conformance;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Adapters;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Operands.AdamWInputs;
import dev.starforge.tensor.op.Operands.AddLayerNormInputs;
import dev.starforge.tensor.op.Operands.AttentionGradInputs;
import dev.starforge.tensor.op.Operands.AttentionInputs;
import dev.starforge.tensor.op.Operands.CrossEntropyGradInputs;
import dev.starforge.tensor.op.Operands.LayerNormGradInputs;
import dev.starforge.tensor.op.Operands.RmsNormGradInputs;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.util.Arrays;
import java.util.List;

/**
 * The magnitudes that errors are relative to: for each element the sum of the absolute values of its terms. For sums of products this
 * is the reference on absolute inputs. Other operations have formulas, with one rule: an error d in the exponent of exp(s) is a
 * relative error d, so a probability counts as 1 plus the absolute terms of its exponent.
 */
final class Magnitudes {
    private Magnitudes() {}

    /** One array for each result: outputs, then overwritten inputs. */
    static double[][] of(Device reference, Op op, HostTensor[] in, HostTensor[] results) {
        return switch (op) {
            case Plain.Add _,
                    Plain.Mul _,
                    Plain.MatMul _,
                    Routing.ExpertMatMul _,
                    Routing.ExpertOuter _,
                    Plain.Sum _,
                    Plain.ScatterAdd _,
                    Plain.Unpick _,
                    Plain.Norm _,
                    Layers.AddMatMul _,
                    Adapters _ -> absolute(reference, op, in);
            case Plain.Affine o -> absolute(reference, new Plain.Affine(Math.abs(o.scale()), Math.abs(o.shift())), in);
            case Plain.Map o -> map(o.fn(), in);
            case Plain.MapGrad o -> mapGrad(o.fn(), in);
            case Plain.Softmax _ -> softmax(in[0], results[0]);
            case Plain.SoftmaxGrad _ -> softmaxGrad(in);
            case Plain.LogSumExp _ -> logSumExp(in[0]);
            case Decoding.Sample _ -> sample(in[0], results);
            case Plain.AdamW o -> adamW(o, AdamWInputs.of(in), results);
            case Fused.LayerNorm _ -> layerNorm(in, results);
            case Fused.LayerNormGrad _ -> layerNormGrad(LayerNormGradInputs.of(in), results);
            case Fused.RmsNorm _ -> rmsNorm(in, results);
            case Fused.RmsNormGrad _ -> rmsNormGrad(RmsNormGradInputs.of(in), results);
            case Fused.Rope o -> rope(o, in);
            case Fused.Gated o -> gated(o.fn(), in);
            case Fused.GatedGrad o -> gatedGrad(o.fn(), in);
            case Fused.CrossEntropy _ -> crossEntropy(in);
            case Fused.CrossEntropyGrad _ -> crossEntropyGrad(CrossEntropyGradInputs.of(in));
            case Fused.Attention o ->
                new Attend(o.scale(), o.window(), o.block(), decoded(AttentionInputs.of(in))).forward(results);
            case Fused.AttentionGrad o -> attentionGrad(o, AttentionGradInputs.of(in), results);
            case Layers.Linear o -> absolute(reference, withoutActivation(o), in);
            case Layers.AddRmsNorm _ -> sumAnd(rmsNorm(new HostTensor[] {results[0], in[2]}, after(results)), in);
            case Layers.AddLayerNorm _ -> addLayerNorm(AddLayerNormInputs.of(in), in, results);
            default -> // exact in Tolerances: copies, indices, and results that are defined to the bit
                throw new IllegalArgumentException(op.name() + ": exact operations have no magnitude");
        };
    }

    /** The slopes of the activation functions of layers hardly exceed 1, so errors are relative to their inputs. */
    private static Layers.Linear withoutActivation(Layers.Linear op) {
        return new Layers.Linear(op.weights(), op.bias(), Fn.IDENTITY, op.residual(), op.to(), op.int8());
    }

    private static HostTensor[] after(HostTensor[] results) {
        return Arrays.copyOfRange(results, 1, results.length);
    }

    /** x + y is one operation; the norm of the sum has the magnitude of any norm. */
    private static double[][] sumAnd(double[][] norm, HostTensor[] in) {
        double[] sum = new double[in[0].size()];
        for (int i = 0; i < sum.length; i++) {
            sum[i] = Math.abs(in[0].at(i)) + Math.abs(in[1].at(i));
        }
        double[][] all = new double[1 + norm.length][];
        all[0] = sum;
        System.arraycopy(norm, 0, all, 1, norm.length);
        return all;
    }

    private static double[][] absolute(Device reference, Op op, HostTensor[] in) {
        HostTensor[] positive = new HostTensor[in.length];
        for (int i = 0; i < in.length; i++) {
            HostTensor from = in[i];
            boolean number = from.spec().dtype().isWeight(); // not an index
            Spec spec = from.spec().dtype().isQuantized() ? new Spec(DType.F32, from.shape()) : from.spec();
            positive[i] = number ? HostTensor.of(spec, e -> Math.abs(from.at(e))) : from;
        }
        HostTensor[] out = OpRunner.plain(reference, op, positive);
        double[][] magnitudes = new double[out.length][];
        for (int k = 0; k < out.length; k++) {
            magnitudes[k] = out[k].doubles();
        }
        return magnitudes;
    }

    /** 1 + tanh cancels for negative x, so errors of GELU are relative to |x|, of sin and cos to 1, of others to the value. */
    private static double magnitude(Fn fn, double x) {
        return switch (fn) {
            case IDENTITY, EXP, RSQRT, RECIPROCAL, SIGMOID, SILU -> Math.abs(fn.apply(x));
            case SIN, COS -> 1;
            case GELU_TANH -> Math.abs(x);
        };
    }

    /** The slope of a sigmoid s is s (1 - s), where 1 - s cancels for large x, so its error is relative to s. */
    private static double slope(Fn fn, double x) {
        return switch (fn) {
            case IDENTITY, EXP, RSQRT, RECIPROCAL -> Math.abs(fn.slope(x));
            case SIGMOID -> fn.apply(x);
            case SIN, COS -> 1;
            case SILU -> {
                double s = 1 / (1 + Math.exp(-x));
                yield s * (1 + Math.abs(x));
            }
            case GELU_TANH -> 1 + 0.8 * Math.abs(x) * (1 + 3 * 0.044715 * x * x);
        };
    }

    private static double[][] map(Fn fn, HostTensor[] in) {
        double[] y = new double[in[0].size()];
        for (int i = 0; i < y.length; i++) {
            y[i] = magnitude(fn, in[0].at(i));
        }
        return new double[][] {y};
    }

    private static double[][] mapGrad(Fn fn, HostTensor[] in) {
        double[] y = new double[in[0].size()];
        for (int i = 0; i < y.length; i++) {
            y[i] = slope(fn, in[0].at(i)) * Math.abs(in[1].at(i));
        }
        return new double[][] {y};
    }

    private static double[][] gated(Fn fn, HostTensor[] in) {
        double[] y = new double[in[0].size()];
        for (int i = 0; i < y.length; i++) {
            y[i] = magnitude(fn, in[0].at(i)) * Math.abs(in[1].at(i));
        }
        return new double[][] {y};
    }

    private static double[][] gatedGrad(Fn fn, HostTensor[] in) {
        double[][] d = new double[2][in[0].size()];
        for (int i = 0; i < d[0].length; i++) {
            double dy = Math.abs(in[2].at(i));
            d[0][i] = slope(fn, in[0].at(i)) * Math.abs(in[1].at(i)) * dy;
            d[1][i] = magnitude(fn, in[0].at(i)) * dy;
        }
        return d;
    }

    /** The largest finite |x| of a row. */
    private static double largest(HostTensor x, int row) {
        int c = (int) x.shape().last();
        double largest = 0;
        for (int i = row * c; i < (row + 1) * c; i++) {
            if (Double.isFinite(x.at(i))) {
                largest = Math.max(largest, Math.abs(x.at(i)));
            }
        }
        return largest;
    }

    private static double[][] softmax(HostTensor x, HostTensor y) {
        double[] m = new double[y.size()];
        int c = (int) x.shape().last();
        for (int row = 0; row < x.shape().rows(); row++) {
            double largest = largest(x, row);
            for (int i = row * c; i < (row + 1) * c; i++) {
                m[i] = y.at(i) == 0 ? 0 : y.at(i) * (1 + Math.abs(x.at(i)) + largest);
            }
        }
        return new double[][] {m};
    }

    private static double[][] softmaxGrad(HostTensor[] in) {
        int c = (int) in[0].shape().last();
        double[] m = new double[in[0].size()];
        for (int row = 0; row < in[0].shape().rows(); row++) {
            double dot = 0;
            for (int i = row * c; i < (row + 1) * c; i++) {
                dot += Math.abs(in[0].at(i) * in[1].at(i));
            }
            for (int i = row * c; i < (row + 1) * c; i++) {
                m[i] = Math.abs(in[0].at(i)) * (Math.abs(in[1].at(i)) + dot);
            }
        }
        return new double[][] {m};
    }

    private static double[][] logSumExp(HostTensor x) {
        double[] m = new double[(int) x.shape().rows()];
        for (int row = 0; row < m.length; row++) {
            m[row] = 1 + largest(x, row);
        }
        return new double[][] {m};
    }

    /** Tokens, ids and counts are exact; a log-probability is a logit minus the log of a sum. */
    private static double[][] sample(HostTensor logits, HostTensor[] results) {
        double[][] m = new double[results.length][];
        for (int k = 0; k < m.length; k++) {
            m[k] = new double[results[k].size()];
        }
        for (int row = 0; row < m[1].length; row++) {
            int top = m[3].length / m[1].length;
            m[1][row] = 2 * (1 + largest(logits, row));
            Arrays.fill(m[3], row * top, (row + 1) * top, m[1][row]);
        }
        return m;
    }

    private static double[][] crossEntropy(HostTensor[] in) {
        double[] lse = logSumExp(in[0])[0];
        double[] losses = new double[lse.length];
        for (int row = 0; row < losses.length; row++) {
            losses[row] = Math.abs(in[2].at(row)) * 2 * lse[row];
        }
        return new double[][] {losses, lse};
    }

    private static double[][] crossEntropyGrad(CrossEntropyGradInputs<HostTensor> in) {
        int v = (int) in.logits().shape().last();
        double[] m = new double[in.logits().size()];
        for (int i = 0; i < m.length; i++) {
            int row = i / v;
            double x = in.logits().at(i);
            double lse = in.lse().at(row);
            double p = Math.exp(x - lse) * (1 + Math.abs(x) + Math.abs(lse));
            double target = in.labels().at(row) == i % v ? 1 : 0;
            m[i] = Math.abs(in.weights().at(row) * in.dlosses().at(row)) * (p + target);
        }
        return new double[][] {m};
    }

    private static double[][] layerNorm(HostTensor[] in, HostTensor[] results) {
        HostTensor x = in[0];
        int c = (int) x.shape().last();
        int rows = (int) x.shape().rows();
        double[] y = new double[x.size()];
        double[] mean = new double[rows];
        for (int row = 0; row < rows; row++) {
            for (int i = 0; i < c; i++) {
                mean[row] += Math.abs(x.at(row * c + i)) / c;
            }
            for (int i = 0; i < c; i++) {
                double centered = Math.abs(x.at(row * c + i)) + mean[row];
                y[row * c + i] = centered * results[2].at(row) * Math.abs(in[1].at(i)) + Math.abs(in[2].at(i));
            }
        }
        return new double[][] {y, mean, results[2].doubles()};
    }

    private static double[][] rmsNorm(HostTensor[] in, HostTensor[] results) {
        int c = (int) in[0].shape().last();
        double[] y = new double[in[0].size()];
        for (int i = 0; i < y.length; i++) {
            y[i] = Math.abs(in[0].at(i) * in[1].at(i % c)) * results[1].at(i / c);
        }
        return new double[][] {y, results[1].doubles()};
    }

    private static double[][] layerNormGrad(LayerNormGradInputs<HostTensor> in, HostTensor[] results) {
        return normGrad(in.x(), in.w(), in.mean(), in.rstd(), in.dy(), results);
    }

    /** Like LayerNorm with a mean of zero. */
    private static double[][] rmsNormGrad(RmsNormGradInputs<HostTensor> in, HostTensor[] results) {
        HostTensor mean = new HostTensor(in.rstd().spec());
        return normGrad(in.x(), in.w(), mean, in.rstd(), in.dy(), results);
    }

    private static double[][] addLayerNorm(AddLayerNormInputs<HostTensor> a, HostTensor[] in, HostTensor[] results) {
        return sumAnd(layerNorm(new HostTensor[] {results[0], a.w(), a.b()}, after(results)), in);
    }

    private static double[][] attentionGrad(
            Fused.AttentionGrad op, AttentionGradInputs<HostTensor> in, HostTensor[] results) {
        return new Attend(op.scale(), op.window(), op.block(), in.forward()).gradient(in.lse(), in.dy(), results);
    }

    /** dx = rstd * (g - mean(g) - n * mean(g * n)) with g = dy * w; dw = sum(dy * n), db = sum(dy). */
    private static double[][] normGrad(
            HostTensor x, HostTensor w, HostTensor mean, HostTensor rstd, HostTensor dy, HostTensor[] results) {
        int c = (int) x.shape().last();
        double[] dx = new double[x.size()];
        double[] dw = new double[c];
        double[] db = new double[c];
        for (int row = 0; row < x.shape().rows(); row++) {
            double[] n = new double[c];
            double sum = 0;
            double dot = 0;
            for (int i = 0; i < c; i++) {
                double d = Math.abs(dy.at(row * c + i));
                n[i] = (Math.abs(x.at(row * c + i)) + Math.abs(mean.at(row))) * rstd.at(row);
                sum += d * Math.abs(w.at(i)) / c;
                dot += d * Math.abs(w.at(i)) * n[i] / c;
                dw[i] += d * n[i];
                db[i] += d;
            }
            for (int i = 0; i < c; i++) {
                double g = Math.abs(dy.at(row * c + i) * w.at(i));
                dx[row * c + i] = rstd.at(row) * (g + sum + n[i] * dot);
            }
        }
        return Arrays.copyOf(new double[][] {dx, dw, db}, results.length);
    }

    private static double[][] rope(Fused.Rope op, HostTensor[] in) {
        int d = (int) in[0].shape().dim(2);
        int half = in[2].size();
        double[] y = new double[in[0].size()];
        for (int i = 0; i < y.length; i++) {
            int at = i % d;
            double own = Math.abs(in[0].at(i));
            double partner = at >= 2 * half ? 0 : Math.abs(in[0].at(at < half ? i + half : i - half));
            y[i] = at >= 2 * half ? own : Math.abs(op.magnitude()) * (own + partner);
        }
        return new double[][] {y};
    }

    private static double[][] adamW(Plain.AdamW op, AdamWInputs<HostTensor> in, HostTensor[] results) {
        double[][] all = new double[3][in.parameter().size()];
        if (!Double.isFinite(in.norm().at(0))) {
            return all;
        }
        double clip = Math.min(1, op.maxNorm() / (in.norm().at(0) + 1e-6));
        double lr = in.rate().at(0);
        for (int i = 0; i < all[0].length; i++) {
            double g = Math.abs(in.gradient().at(i)) * clip;
            double m = op.beta1() * Math.abs(in.m().at(i)) + (1 - op.beta1()) * g;
            double v = results[2].at(i);
            double update = m / in.rate().at(1) / (Math.sqrt(v / in.rate().at(2)) + op.eps());
            all[0][i] = Math.abs(in.parameter().at(i)) * (1 + lr * op.weightDecay()) + lr * update;
            all[1][i] = m;
            all[2][i] = v;
        }
        return all;
    }

    /** The same inputs with an int8 cache dequantized to float32. */
    private static AttentionInputs<HostTensor> decoded(AttentionInputs<HostTensor> in) {
        if (!in.isInt8()) {
            return in;
        }
        HostTensor k = decoded(in.k(), in.kScales());
        HostTensor v = decoded(in.v(), in.vScales());
        return new AttentionInputs<>(in.q(), k, v, in.starts(), in.positions(), in.tables(), List.of());
    }

    private static HostTensor decoded(HostTensor values, HostTensor scales) {
        int d = (int) values.shape().last();
        return HostTensor.of(new Spec(DType.F32, values.shape()), i -> values.at(i) * scales.at(i / d));
    }

    /** Iterates over queries and their visible keys, like the definition of attention. */
    private static final class Attend {
        private final double scale;
        private final int window;
        private final int block;
        private final AttentionInputs<HostTensor> in;
        private final int tokens;
        private final int heads;
        private final int kvHeads;
        private final int d;

        Attend(double scale, int window, int block, AttentionInputs<HostTensor> in) {
            this.scale = scale;
            this.window = window;
            this.block = block;
            this.in = in;
            Shape q = in.q().shape();
            tokens = (int) q.dim(0);
            heads = (int) q.dim(1);
            d = (int) q.dim(2);
            kvHeads = (int) in.k().shape().dim(1);
        }

        private int first(int position) {
            return window == 0 ? 0 : Math.max(0, position - window + 1);
        }

        private int sequence(int n) {
            int s = 0;
            while (in.starts().at(s + 1) <= n) {
                s++;
            }
            return s;
        }

        private int key(int n, int position, int head) {
            int width = (int) in.tables().shape().last();
            int row = (int) in.tables().at(sequence(n) * width + position / block) * block + position % block;
            return (row * kvHeads + head / (heads / kvHeads)) * d;
        }

        private double dot(HostTensor a, int at, HostTensor b, int from, boolean absolute) {
            double dot = 0;
            for (int i = 0; i < d; i++) {
                double product = a.at(at + i) * b.at(from + i);
                dot += absolute ? Math.abs(product) : product;
            }
            return dot;
        }

        private double score(int n, int head, int key, boolean absolute) {
            return scale * dot(in.q(), (n * heads + head) * d, in.k(), key, absolute);
        }

        double[][] forward(HostTensor[] results) {
            double[] y = new double[tokens * heads * d];
            double[] lse = new double[tokens * heads];
            for (int n = 0; n < tokens; n++) {
                for (int head = 0; head < heads; head++) {
                    forward(n, head, results[1].at(n * heads + head), y, lse);
                }
            }
            return new double[][] {y, lse};
        }

        private void forward(int n, int head, double logSum, double[] y, double[] lse) {
            int at = n * heads + head;
            int position = (int) in.positions().at(n);
            lse[at] = 1 + Math.abs(logSum);
            for (int t = first(position); t <= position; t++) {
                int key = key(n, t, head);
                lse[at] += Math.exp(score(n, head, key, false) - logSum) * score(n, head, key, true);
            }
            for (int t = first(position); t <= position; t++) {
                int key = key(n, t, head);
                double p = Math.exp(score(n, head, key, false) - logSum) * (lse[at] + score(n, head, key, true));
                for (int i = 0; i < d; i++) {
                    y[at * d + i] += p * Math.abs(in.v().at(key + i));
                }
            }
        }

        double[][] gradient(HostTensor lse, HostTensor dy, HostTensor[] results) {
            double[][] gradients = new double[3][];
            for (int i = 0; i < 3; i++) {
                gradients[i] = new double[results[i].size()];
            }
            for (int n = 0; n < tokens; n++) {
                for (int head = 0; head < heads; head++) {
                    gradient(n, head, lse.at(n * heads + head), dy, gradients);
                }
            }
            return gradients;
        }

        private void gradient(int n, int head, double logSum, HostTensor dy, double[][] gradients) {
            int at = (n * heads + head) * d;
            int position = (int) in.positions().at(n);
            double delta = 0; // magnitude of sum(dy * y), with terms dy * p * v
            for (int t = first(position); t <= position; t++) {
                int key = key(n, t, head);
                delta += Math.exp(score(n, head, key, false) - logSum) * dot(dy, at, in.v(), key, true);
            }
            for (int t = first(position); t <= position; t++) {
                int key = key(n, t, head);
                double exponent = 1 + Math.abs(logSum) + score(n, head, key, true);
                double p = exponent * Math.exp(score(n, head, key, false) - logSum);
                double ds = p * (dot(dy, at, in.v(), key, true) + delta) * scale;
                for (int i = 0; i < d; i++) {
                    gradients[0][at + i] += ds * Math.abs(in.k().at(key + i));
                    gradients[1][key + i] += ds * Math.abs(in.q().at(at + i));
                    gradients[2][key + i] += p * Math.abs(dy.at(at + i));
                }
            }
        }
    }
}
