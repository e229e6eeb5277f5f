package dev.starforge.tensor.reference;

import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.op.Operands.GroupOutputs;
import dev.starforge.tensor.op.Routing;
import java.util.Arrays;

/** What mixtures of experts need: choosing, sorting, and each expert's own product. */
final class Experts {
    private Experts() {}

    static void route(Routing.Route op, View scores, View chosen) {
        int experts = (int) scores.last;
        int each = experts / op.groups();
        for (long n = 0; n < scores.rows; n++) {
            double[] group = new double[op.groups()];
            for (int g = 0; g < group.length; g++) {
                double[] members = new double[each];
                for (int i = 0; i < each; i++) {
                    members[i] = scores.at(n * experts + g * each + i);
                }
                Arrays.sort(members);
                for (int vote = 0; vote < op.votes(); vote++) {
                    group[g] += members[each - 1 - vote];
                }
            }
            boolean[] closed = new boolean[op.groups()];
            boolean[] open = new boolean[experts];
            for (int kept = 0; kept < op.kept(); kept++) {
                int best = best(group, closed);
                closed[best] = true;
                Arrays.fill(open, best * each, (best + 1) * each, true);
            }
            double[] candidates = new double[experts];
            boolean[] taken = new boolean[experts];
            for (int e = 0; e < experts; e++) {
                candidates[e] = scores.at(n * experts + e);
                taken[e] = !open[e];
            }
            for (int slot = 0; slot < op.k(); slot++) {
                int best = best(candidates, taken);
                taken[best] = true;
                chosen.set(n * op.k() + slot, best);
            }
        }
    }

    /** The lowest index of the highest value that is not taken; NaN counts as the lowest there is. */
    private static int best(double[] values, boolean[] taken) {
        int best = -1;
        for (int i = 0; i < values.length; i++) {
            if (!taken[i]
                    && (best < 0
                            || values[i] > values[best]
                            || Double.isNaN(values[best]) && !Double.isNaN(values[i]))) {
                best = i;
            }
        }
        return best;
    }

    static void group(View experts, GroupOutputs<View> out) {
        for (long i = 0; i < experts.size; i++) {
            if (experts.index(i) < 0 || experts.index(i) >= out.offsets().size - 1) {
                throw new TensorException("Group: expert " + experts.index(i) + " of " + (out.offsets().size - 1));
            }
        }
        int at = 0;
        for (int e = 0; e + 1 < out.offsets().size; e++) {
            out.offsets().set(e, at);
            for (long i = 0; i < experts.size; i++) {
                if (experts.index(i) == e) {
                    out.order().set(at, i);
                    out.tokens().set(at++, i / experts.last);
                }
            }
        }
        out.offsets().set(out.offsets().size - 1, at);
    }

    static void checkOffsets(String op, View offsets, long rows) {
        boolean rising = offsets.index(0) == 0 && offsets.index(offsets.size - 1) == rows;
        for (long e = 0; e + 1 < offsets.size; e++) {
            rising &= offsets.index(e) <= offsets.index(e + 1);
        }
        if (!rising) {
            throw new TensorException(op + ": offsets do not rise from 0 to " + rows + " rows");
        }
    }

    /** (x, w, offsets) -> y. */
    static void matmul(boolean transposeB, View[] in, View y) {
        checkOffsets("ExpertMatMul", in[2], in[0].rows);
        long k = in[0].last;
        long m = y.last;
        for (int e = 0; e + 1 < in[2].size; e++) {
            for (long row = in[2].index(e); row < in[2].index(e + 1); row++) {
                for (long j = 0; j < m; j++) {
                    double sum = 0;
                    for (long p = 0; p < k; p++) {
                        sum += in[0].at(row * k + p) * in[1].at(e * k * m + (transposeB ? j * k + p : p * m + j));
                    }
                    y.set(row * m + j, sum);
                }
            }
        }
    }

    /** (a, b, offsets) -> y. */
    static void outer(View[] in, View y) {
        checkOffsets("ExpertOuter", in[2], in[0].rows);
        long m = in[0].last;
        long n = in[1].last;
        for (int e = 0; e + 1 < in[2].size; e++) {
            for (long i = 0; i < m; i++) {
                for (long j = 0; j < n; j++) {
                    double sum = 0;
                    for (long row = in[2].index(e); row < in[2].index(e + 1); row++) {
                        sum += in[0].at(row * m + i) * in[1].at(row * n + j);
                    }
                    y.set((e * m + i) * n + j, sum);
                }
            }
        }
    }
}
