package dev.starforge.cpu.matmul;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.Sums;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.elementwise.Elementwise;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.op.Operands.ExpertLoraInputs;
import dev.starforge.tensor.op.Operands.LoraInputs;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Low-rank updates out of tables, in two passes: h = scale * x a^T of all rows into the shared scratch, then y + h b^T. A chunk
 * is some rows and some of the ranks, or of the outputs; whatever order its rows have, it reads each adapter they share once.
 * The sums of a row follow from its own x and its own adapter: over x in the order of {@link Sums}, over the rank in ascending
 * order. So the result does not depend on the other rows or their adapters, and rows of the base are copied.
 */
public final class Lora {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final int STRIP = Scratch.STRIP;
    private static final int DOWN_ROWS = 32;
    private static final int RANKS = 4;
    private static final int UP_ROWS = 64;
    private static final int OUTPUTS = 128;

    private final View x;
    private final View a;
    private final View b;
    private final View scales;
    private final View base;
    private final View y;
    private final int[] matrices; // of each row, the number of its matrices in a and b; negative for the base
    private final int width;
    private final int rank;

    private Lora(LoraInputs<View> in, View y, int[] matrices) {
        base = in.y();
        x = in.x();
        a = in.a();
        b = in.b();
        scales = in.scales();
        this.y = y;
        this.matrices = matrices;
        width = Math.toIntExact(x.last);
        rank = Math.toIntExact(b.last);
    }

    /** All of h; for a worker the larger of what the passes need. */
    public static Scratch scratch(Shape y, Shape b) {
        long rank = b.last();
        long down = (DOWN_ROWS + 1L) * STRIP + Sums.LANES;
        long up = 2 * OUTPUTS * (rank + 1);
        return new Scratch(y.dim(0) * rank, Math.max(down, up), y.dim(0));
    }

    public static void rows(Workers workers, LoraInputs<View> in, View y) {
        int[] matrices = workers.ints();
        for (int row = 0; row < y.rows; row++) {
            matrices[row] = adapter("Lora", row, in.index().index(row), in.scales().size);
        }
        new Lora(in, y, matrices).run(workers);
    }

    public static void experts(Workers workers, ExpertLoraInputs<View> in, View y) {
        View offsets = in.offsets();
        View index = in.lora().index();
        Experts.check("ExpertLora", offsets, y.rows);
        int[] matrices = workers.ints();
        int adapters = Math.toIntExact(in.lora().scales().size);
        for (int e = 0; e + 1 < offsets.size; e++) {
            for (int row = offsets.index(e); row < offsets.index(e + 1); row++) {
                int token = in.tokens().index(row);
                if (token < 0 || token >= index.size) {
                    throw new TensorException("ExpertLora: row " + row + " is of token " + token + " of " + index.size);
                }
                int adapter = adapter("ExpertLora", row, index.index(token), adapters);
                matrices[row] = adapter < 0 ? adapter : e * adapters + adapter;
            }
        }
        new Lora(in.lora(), y, matrices).run(workers);
    }

    private static int adapter(String op, int row, int adapter, long adapters) {
        if (adapter >= adapters) {
            throw new TensorException(op + ": row " + row + " has adapter " + adapter + " of " + adapters);
        }
        return adapter;
    }

    private void run(Workers workers) {
        long ranks = Workers.count(rank, RANKS);
        workers.run(
                Workers.count(y.rows, DOWN_ROWS) * ranks,
                (chunk, s, at) -> down((int) (chunk / ranks) * DOWN_ROWS, (int) (chunk % ranks) * RANKS, s, at));
        long outputs = Workers.count(y.last, OUTPUTS);
        workers.run(
                Workers.count(y.rows, UP_ROWS) * outputs,
                (chunk, s, at) -> up((int) (chunk / outputs) * UP_ROWS, (int) (chunk % outputs) * OUTPUTS, s, at));
    }

    /** h[row][r] of some rows and ranks. */
    private void down(int row0, int rank0, float[] s, int at) {
        int end = (int) Math.min(row0 + DOWN_ROWS, y.rows);
        int ranks = Math.min(RANKS, rank - rank0);
        for (int row = row0; row < end; row++) {
            Arrays.fill(s, row * rank + rank0, row * rank + rank0 + ranks, 0);
        }
        for (int i = 0; i < width; i += STRIP) {
            int count = Math.min(STRIP, width - i);
            for (int row = row0; row < end; row++) {
                if (matrices[row] >= 0) {
                    x.load((long) row * width + i, count, s, at + (row - row0) * STRIP);
                }
            }
            for (int first = row0; first < end; first++) {
                if (isFirst(first, row0)) {
                    for (int r = rank0; r < rank0 + ranks; r++) {
                        dots(first, end, r, i, count, s, at + (first - row0) * STRIP, at + DOWN_ROWS * STRIP);
                    }
                }
            }
        }
        for (int row = row0; row < end; row++) {
            for (int r = rank0; r < rank0 + ranks && matrices[row] >= 0; r++) {
                s[row * rank + r] *= scales.at(matrices[row] % scales.size);
            }
        }
    }

    /** A strip of row r of an adapter's a with all x from {@code first} on that have this adapter; x lie a strip apart. */
    private void dots(int first, int end, int r, int i, int count, float[] s, int at, int weight) {
        a.load(((long) matrices[first] * rank + r) * width + i, count, s, weight);
        for (int row = first; row < end; row++) {
            if (matrices[row] == matrices[first]) {
                s[row * rank + r] += Sums.dot(s, at + (row - first) * STRIP, weight, count, weight + STRIP);
            }
        }
    }

    /** Whether a row has an adapter that no row of its chunk before it has. */
    private boolean isFirst(int row, int row0) {
        boolean first = matrices[row] >= 0;
        for (int before = row0; before < row; before++) {
            first &= matrices[before] != matrices[row];
        }
        return first;
    }

    /** Some outputs of some rows. */
    private void up(int row0, int out0, float[] s, int at) {
        int end = (int) Math.min(row0 + UP_ROWS, y.rows);
        int outputs = (int) Math.min(OUTPUTS, y.last - out0);
        for (int row = row0; row < end; row++) {
            if (matrices[row] < 0) {
                base.copy(row * y.last + out0, y, row * y.last + out0, outputs);
            } else if (isFirst(row, row0)) {
                up(row, end, out0, outputs, s, at);
            }
        }
    }

    /** Of all rows from {@code first} on that have its adapter: b once, transposed so that outputs are lanes. */
    private void up(int first, int end, int out0, int outputs, float[] s, int at) {
        int turned = at + OUTPUTS * rank;
        int sums = turned + OUTPUTS * rank;
        b.load((matrices[first] * y.last + out0) * rank, outputs * rank, s, at);
        for (int r = 0; r < rank; r++) {
            for (int o = 0; o < outputs; o++) {
                s[turned + r * OUTPUTS + o] = s[at + o * rank + r];
            }
        }
        for (int row = first; row < end; row++) {
            if (matrices[row] == matrices[first]) {
                multiply(s, row * rank, rank, turned, sums);
                base.load(row * y.last + out0, outputs, s, sums + OUTPUTS);
                Elementwise.add(s, sums, sums + OUTPUTS, OUTPUTS);
                y.store(row * y.last + out0, outputs, s, sums);
            }
        }
    }

    /** sums[o] = the sum of h[r] * b[r][o] in ascending r. */
    private static void multiply(float[] s, int h, int rank, int b, int sums) {
        for (int o = sums; o < sums + OUTPUTS; o += 4 * W) {
            FloatVector c0 = FloatVector.zero(SPECIES);
            FloatVector c1 = c0;
            FloatVector c2 = c0;
            FloatVector c3 = c0;
            int p = b + o - sums;
            for (int r = h; r < h + rank; r++, p += OUTPUTS) {
                FloatVector spread = FloatVector.broadcast(SPECIES, s[r]);
                c0 = spread.fma(FloatVector.fromArray(SPECIES, s, p), c0);
                c1 = spread.fma(FloatVector.fromArray(SPECIES, s, p + W), c1);
                c2 = spread.fma(FloatVector.fromArray(SPECIES, s, p + 2 * W), c2);
                c3 = spread.fma(FloatVector.fromArray(SPECIES, s, p + 3 * W), c3);
            }
            c0.intoArray(s, o);
            c1.intoArray(s, o + W);
            c2.intoArray(s, o + 2 * W);
            c3.intoArray(s, o + 3 * W);
        }
    }
}
