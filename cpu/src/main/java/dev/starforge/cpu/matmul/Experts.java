package dev.starforge.cpu.matmul;

import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.machine.MachineCode;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.op.Operands.GroupOutputs;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.util.Arrays;

/**
 * What mixtures of experts need. Products go one expert after the other through a {@link Product}, whose order of summation
 * follows from the length of the sum alone: a token's result is bit-equal to its expert's product for it alone, whichever token
 * chose that expert. How the rows fall to the experts is read here, on the caller's thread.
 */
public final class Experts {
    private Experts() {}

    /** A row of scores, and of marks. */
    public static Scratch routeScratch(Shape scores) {
        return new Scratch(0, 2 * scores.last());
    }

    public static void route(Workers workers, Routing.Route op, View scores, View chosen) {
        int experts = Math.toIntExact(scores.last);
        workers.rows(scores.rows, experts, (n, s, at) -> {
            int open = at + experts;
            scores.load(n * experts, experts, s, at);
            Arrays.fill(s, open, open + experts, 1);
            if (op.kept() < op.groups()) {
                closeGroups(op, s, at, open, experts / op.groups());
            }
            for (int slot = 0; slot < op.k(); slot++) {
                int best = best(s, at, open, experts);
                s[open + best] = 0;
                chosen.setIndex(n * op.k() + slot, best);
            }
        });
    }

    /** Leaves open what fewer than {@code kept} groups are ahead of. */
    private static void closeGroups(Routing.Route op, float[] s, int scores, int open, int each) {
        double[] votes = new double[op.groups()];
        for (int g = 0; g < votes.length; g++) {
            votes[g] = votes(op.votes(), s, scores + g * each, open + g * each, each);
        }
        for (int g = 0; g < votes.length; g++) {
            int ahead = 0;
            for (int h = 0; h < votes.length; h++) {
                boolean higher = votes[h] > votes[g] || Double.isNaN(votes[g]) && !Double.isNaN(votes[h]);
                boolean lower = votes[g] > votes[h] || Double.isNaN(votes[h]) && !Double.isNaN(votes[g]);
                ahead += higher || !lower && h < g ? 1 : 0;
            }
            Arrays.fill(s, open + g * each, open + (g + 1) * each, ahead < op.kept() ? 1 : 0);
        }
    }

    /** The sum of a group's best scores, the highest first; NaN if one of its scores is. The marks are used up. */
    private static double votes(int votes, float[] s, int scores, int open, int each) {
        for (int i = scores; i < scores + each; i++) {
            if (Float.isNaN(s[i])) {
                return Double.NaN;
            }
        }
        double sum = 0;
        for (int vote = 0; vote < votes; vote++) {
            int best = best(s, scores, open, each);
            s[open + best] = 0;
            sum += s[scores + best];
        }
        return sum;
    }

    /** The lowest index of the highest value that is marked as open; NaN counts as the lowest there is. */
    private static int best(float[] s, int values, int open, int n) {
        int best = -1;
        float most = Float.NaN;
        for (int i = 0; i < n; i++) {
            float value = s[values + i];
            if (s[open + i] != 0 && (best < 0 || value > most || Float.isNaN(most) && !Float.isNaN(value))) {
                best = i;
                most = value;
            }
        }
        return best;
    }

    /** A counting sort that counts in the offsets. */
    public static void group(Workers workers, View experts, GroupOutputs<View> out) {
        workers.run(1, (chunk, s, at) -> {
            View offsets = out.offsets();
            long count = offsets.size - 1;
            offsets.clear(0, offsets.size);
            for (long i = 0; i < experts.size; i++) {
                int e = experts.index(i);
                if (e < 0 || e >= count) {
                    throw new TensorException("Group: choice " + i + " is expert " + e + " of " + count);
                }
                offsets.setIndex(e + 1, offsets.index(e + 1) + 1);
            }
            for (long e = 1; e <= count; e++) {
                offsets.setIndex(e, offsets.index(e) + offsets.index(e - 1));
            }
            for (long i = 0; i < experts.size; i++) {
                int e = experts.index(i);
                int to = offsets.index(e);
                offsets.setIndex(e, to + 1);
                out.order().setIndex(to, (int) i);
                out.tokens().setIndex(to, (int) (i / experts.last));
            }
            for (long e = count; e > 0; e--) { // each has moved on to where the next began
                offsets.setIndex(e, offsets.index(e - 1));
            }
            offsets.setIndex(0, 0);
        });
    }

    /** As if all rows chose one expert, or a few did, whose product may be another. */
    public static Scratch matmulScratch(MachineCode.Availability machine, Routing.ExpertMatMul op, Spec x, Spec w) {
        long rows = x.shape().dim(0);
        long width = w.shape().dim(op.transposeB() ? 1 : 2);
        return product(machine, op, x.dtype(), w.dtype(), rows, width, x.shape().last())
                .scratch()
                .or(product(
                                machine,
                                op,
                                x.dtype(),
                                w.dtype(),
                                Math.min(rows, MatMul.GEMV_MAX_ROWS),
                                width,
                                x.shape().last())
                        .scratch());
    }

    /** (x, w, offsets) -> y. */
    public static void matmul(
            Workers workers, MachineCode.Availability machine, Routing.ExpertMatMul op, View[] in, View y) {
        View x = in[0];
        View w = in[1];
        View offsets = in[2];
        check("ExpertMatMul", offsets, x.rows);
        for (long e = 0; e + 1 < offsets.size; e++) {
            long from = offsets.index(e);
            long rows = offsets.index(e + 1) - from;
            if (rows > 0) {
                product(machine, op, x.dtype, w.dtype, rows, y.last, x.last)
                        .run(workers, x, from * x.last, w, e * x.last * y.last, y, from * y.last);
            }
        }
    }

    private static Product product(
            MachineCode.Availability machine,
            Routing.ExpertMatMul op,
            DType x,
            DType w,
            long rows,
            long width,
            long depth) {
        Plain.MatMul one = new Plain.MatMul(false, op.transposeB(), DType.F32, op.int8());
        return Product.of(machine, one, x, w, rows, width, depth);
    }

    /** As if all rows chose one expert. */
    public static Scratch outerScratch(MachineCode.Availability machine, Shape a, Shape b) {
        return outerProduct(machine, a.last(), b.last(), a.dim(0)).scratch();
    }

    /** (a, b, offsets) -> y. */
    public static void outer(Workers workers, MachineCode.Availability machine, View[] in, View y) {
        View a = in[0];
        View b = in[1];
        View offsets = in[2];
        check("ExpertOuter", offsets, a.rows);
        for (long e = 0; e + 1 < offsets.size; e++) {
            long from = offsets.index(e);
            outerProduct(machine, a.last, b.last, offsets.index(e + 1) - from)
                    .run(workers, a, from * a.last, b, from * b.last, y, e * a.last * b.last);
        }
    }

    private static MatMul outerProduct(MachineCode.Availability machine, long m, long n, long rows) {
        return new MatMul(machine, false, true, false, m, n, rows);
    }

    /** A row that no expert has would be left unwritten. */
    static void check(String op, View offsets, long rows) {
        long at = 0;
        for (long e = 0; e < offsets.size; e++) {
            long next = offsets.index(e);
            if (next < at || e == 0 && next != 0 || next > rows) {
                throw new TensorException(
                        op + ": offset " + e + " is " + next + " after " + at + ", of " + rows + " rows");
            }
            at = next;
        }
        if (at != rows) {
            throw new TensorException(op + ": the last offset is " + at + ", expected " + rows + " rows");
        }
    }
}
