package dev.starforge.tensor.reference;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.op.Operands.AttentionGradOutputs;
import dev.starforge.tensor.op.Operands.AttentionInputs;
import dev.starforge.tensor.op.Operands.MaskInputs;

/** Attention as the definition reads: for every query and head, over the keys it may see. */
final class Attention {
    private final double scale;
    private final int window;
    private final int block;
    private final int heads;
    private final int group;
    private final int d;
    private final int kvHeads;
    private final AttentionInputs<View> in;

    Attention(double scale, int window, int block, Shape q, Shape k, AttentionInputs<View> in) {
        this.scale = scale;
        this.window = window;
        this.block = block;
        this.heads = (int) q.dim(1);
        this.kvHeads = (int) k.dim(1);
        this.group = heads / kvHeads;
        this.d = (int) q.dim(2);
        this.in = in;
    }

    static int first(int window, int position) {
        return window == 0 ? 0 : Math.max(0, position - window + 1);
    }

    private long key(long s, int position, int head) {
        long row = (long) in.tables().index(s * in.tables().last + position / block) * block + position % block;
        return (row * kvHeads + head / group) * d;
    }

    private double score(long n, int head, long key) {
        double dot = 0;
        for (int i = 0; i < d; i++) {
            dot += in.q().at((n * heads + head) * d + i) * in.k().at(key + i);
        }
        return dot * scale * (in.isInt8() ? in.kScales().at(key / d) : 1);
    }

    void forward(View y, View lse) {
        for (long s = 0; s + 1 < in.starts().size; s++) {
            for (long n = in.starts().index(s); n < in.starts().index(s + 1); n++) {
                for (int head = 0; head < heads; head++) {
                    forward(s, n, head, y, lse);
                }
            }
        }
    }

    private void forward(long s, long n, int head, View y, View lse) {
        int last = in.positions().index(n);
        int first = first(window, last);
        double max = Double.NEGATIVE_INFINITY;
        for (int t = first; t <= last; t++) {
            max = Math.max(max, score(n, head, key(s, t, head)));
        }
        double sum = 0;
        double[] weighted = new double[d];
        for (int t = first; t <= last; t++) {
            long key = key(s, t, head);
            double p = Math.exp(score(n, head, key) - max);
            double vScale = in.isInt8() ? in.vScales().at(key / d) : 1;
            sum += p;
            for (int i = 0; i < d; i++) {
                weighted[i] += p * vScale * in.v().at(key + i);
            }
        }
        for (int i = 0; i < d; i++) {
            y.set((n * heads + head) * d + i, weighted[i] / sum);
        }
        lse.set(n * heads + head, max + Math.log(sum));
    }

    void gradient(View y, View lse, View dy, AttentionGradOutputs<View> out) {
        double[] dk = new double[Math.toIntExact(out.dk().size)];
        double[] dv = new double[Math.toIntExact(out.dv().size)];
        for (long s = 0; s + 1 < in.starts().size; s++) {
            for (long n = in.starts().index(s); n < in.starts().index(s + 1); n++) {
                for (int head = 0; head < heads; head++) {
                    gradient(s, n, head, y, lse, dy, out.dq(), dk, dv);
                }
            }
        }
        for (int i = 0; i < dk.length; i++) {
            out.dk().set(i, dk[i]);
            out.dv().set(i, dv[i]);
        }
    }

    private void gradient(long s, long n, int head, View y, View lse, View dy, View dq, double[] dk, double[] dv) {
        long at = (n * heads + head) * d;
        double delta = 0;
        for (int i = 0; i < d; i++) {
            delta += dy.at(at + i) * y.at(at + i);
        }
        double[] sum = new double[d];
        for (int t = first(window, in.positions().index(n)); t <= in.positions().index(n); t++) {
            long key = key(s, t, head);
            double p = Math.exp(score(n, head, key) - lse.at(n * heads + head));
            double dp = 0;
            for (int i = 0; i < d; i++) {
                dp += dy.at(at + i) * in.v().at(key + i);
            }
            double ds = p * (dp - delta) * scale;
            for (int i = 0; i < d; i++) {
                sum[i] += ds * in.k().at(key + i);
                dk[Math.toIntExact(key) + i] += ds * in.q().at(at + i);
                dv[Math.toIntExact(key) + i] += p * dy.at(at + i);
            }
        }
        for (int i = 0; i < d; i++) {
            dq.set(at + i, sum[i]);
        }
    }

    /** scores[G, N, S * L]. */
    static void mask(int window, int block, MaskInputs<View> in, View y) {
        long tokens = in.positions().size;
        long keys = in.tables().last * block; // L
        for (long i = 0; i < y.size; i++) {
            long n = i / y.last % tokens;
            long s = i % y.last / keys;
            long t = i % keys;
            int position = in.positions().index(n);
            boolean seen = n >= in.starts().index(s)
                    && n < in.starts().index(s + 1)
                    && t <= position
                    && t >= first(window, position);
            y.set(i, seen ? in.scores().at(i) : Double.NEGATIVE_INFINITY);
        }
    }
}
