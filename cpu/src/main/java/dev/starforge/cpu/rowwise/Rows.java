package dev.starforge.cpu.rowwise;

import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.Sums;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.elementwise.Elementwise;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Operands.StoreInt8Inputs;
import dev.starforge.tensor.op.Plain.Sum;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;

/**
 * Copies, gathers and adds rows. If several rows can have the same destination, a chunk of work is a range of columns
 * of all rows, in ascending order.
 */
public final class Rows {
    private static final int STRIP = Scratch.STRIP;
    private static final int COPY = 1 << 16;

    private Rows() {}

    public static void permute(Workers workers, List<Integer> axes, Shape from, View x, View y) {
        int rank = axes.size();
        if (rank == 0) {
            x.copy(0, y, 0, 1);
            return;
        }
        long[] dims = new long[rank]; // of y
        long[] strides = new long[rank]; // in x
        long stride = 1;
        for (int axis = rank - 1; axis >= 0; axis--) {
            int to = axes.indexOf(axis);
            dims[to] = from.dim(axis);
            strides[to] = stride;
            stride *= from.dim(axis);
        }
        long width = y.last;
        long step = strides[rank - 1];
        workers.rows(y.size == 0 ? 0 : y.rows, width, (row, s, at) -> {
            long source = 0;
            long rest = row;
            for (int axis = rank - 2; axis >= 0; axis--) {
                source += rest % dims[axis] * strides[axis];
                rest /= dims[axis];
            }
            if (step == 1) {
                x.copy(source, y, row * width, width);
                return;
            }
            for (long i = 0; i < width; i++) {
                y.set(row * width + i, x.at(source + i * step));
            }
        });
    }

    public static void sum(Workers workers, Sum.Over over, View x, View y) {
        switch (over) {
            case LAST ->
                workers.rows(x.rows, x.last, (row, s, at) -> {
                    double sum = 0;
                    for (long i = 0; i < x.last; i += STRIP) {
                        int count = (int) Math.min(STRIP, x.last - i);
                        x.load(row * x.last + i, count, s, at);
                        sum += Sums.sum(s, at, count, at + STRIP);
                    }
                    y.set(row, (float) sum);
                });
            case LEADING ->
                ColumnSums.sum(workers, x.rows, x.last, new View[] {y}, (row, column, count, s, at, sum) -> {
                    x.load(row * x.last + column, count, s, at);
                    Elementwise.add(s, sum, at, count);
                });
        }
    }

    public static void pick(Workers workers, View x, View ids, View y) {
        workers.rows(y.size, 1, (i, s, at) -> {
            int id = ids.index(i);
            y.set(i, id >= 0 && id < x.last ? x.at(i / y.last * x.last + id) : 0);
        });
    }

    public static void unpick(Workers workers, View d, View ids, View y) {
        workers.rows(y.rows, y.last, (n, s, at) -> {
            y.clear(n * y.last, y.last);
            for (long i = n * d.last; i < (n + 1) * d.last; i++) {
                int id = ids.index(i);
                if (id >= 0 && id < y.last) {
                    long to = n * y.last + id;
                    y.set(to, y.at(to) + d.at(i));
                }
            }
        });
    }

    public static void gather(Workers workers, View table, long height, View rows, View y) {
        check("Gather", rows, height);
        long width = rows.size == 0 ? 0 : y.size / rows.size;
        workers.rows(rows.size, width, (n, s, at) -> {
            long row = rows.index(n);
            for (long i = 0; i < width; i += STRIP) {
                int count = (int) Math.min(STRIP, width - i);
                table.load(row * width + i, count, s, at);
                y.store(n * width + i, count, s, at);
            }
        });
    }

    /** Sums for each row of y the rows of x with that destination, sorted beforehand, and stores it once. */
    public static void scatterAdd(Workers workers, View x, View rows, long height, View y) {
        check("ScatterAdd", rows, height);
        int count = Math.toIntExact(rows.size);
        int[] ends = new int[Math.toIntExact(height) + 1];
        for (int n = 0; n < count; n++) {
            ends[rows.index(n) + 1]++;
        }
        for (int row = 0; row < height; row++) {
            ends[row + 1] += ends[row];
        }
        int[] order = new int[count];
        for (int n = 0; n < count; n++) {
            order[ends[rows.index(n)]++] = n; // advances from the begin of each row to its end
        }
        long width = height == 0 ? 0 : y.size / height;
        workers.rows(height, width, (row, s, at) -> {
            int first = row == 0 ? 0 : ends[(int) row - 1];
            for (long i = 0; i < width; i += STRIP) {
                int part = (int) Math.min(STRIP, width - i);
                Arrays.fill(s, at, at + part, 0);
                for (int n = first; n < ends[(int) row]; n++) {
                    x.load(order[n] * width + i, part, s, at + STRIP);
                    Elementwise.add(s, at, at + STRIP, part);
                }
                y.store(row * width + i, part, s, at);
            }
        });
    }

    public static void store(Workers workers, View cache, long height, View rows, View x) {
        check("Store", rows, height);
        long width = rows.size == 0 ? 0 : x.size / rows.size;
        workers.run(Workers.count(width, STRIP), (chunk, s, at) -> {
            long column = chunk * STRIP;
            int count = (int) Math.min(STRIP, width - column);
            for (long n = 0; n < rows.size; n++) {
                x.load(n * width + column, count, s, at);
                cache.store(rows.index(n) * width + column, count, s, at);
            }
        });
    }

    /** Stores one head at a time, with the rows in order. */
    public static void storeInt8(Workers workers, StoreInt8Inputs<View> in, long height) {
        check("StoreInt8", in.rows(), height);
        View scales = in.scales();
        long heads = scales.last;
        int d = Math.toIntExact(in.values().last);
        workers.run(heads, (head, s, at) -> {
            for (long n = 0; n < in.rows().size; n++) {
                long to = in.rows().index(n) * heads + head;
                float most = 0;
                for (int i = 0; i < d; i += STRIP) {
                    int count = Math.min(STRIP, d - i);
                    in.x().load((n * heads + head) * d + i, count, s, at);
                    most = Math.max(most, largest(s, at, count));
                }
                scales.set(to, Math.min(most / Decoding.StoreInt8.MAX_VALUE, 65504f));
                float scale = scales.at(to);
                for (int i = 0; i < d; i += STRIP) {
                    int count = Math.min(STRIP, d - i);
                    in.x().load((n * heads + head) * d + i, count, s, at);
                    encode(s, at, count, scale, in.values(), to * d + i);
                }
            }
        });
    }

    private static float largest(float[] s, int x, int n) {
        float most = 0;
        for (int i = x; i < x + n; i++) {
            most = Math.max(most, Math.abs(s[i]));
        }
        return most;
    }

    private static void encode(float[] s, int x, int n, float scale, View quants, long to) {
        for (int i = 0; i < n; i++) {
            double code = scale == 0 ? 0 : Math.rint(s[x + i] / scale);
            quants.segment.set(ValueLayout.JAVA_BYTE, to + i, (byte)
                    Math.clamp(code, -Decoding.StoreInt8.MAX_VALUE, Decoding.StoreInt8.MAX_VALUE));
        }
    }

    public static void slice(Workers workers, long from, long height, View x, View y) {
        copy(workers, x, height == 0 ? 0 : from * (x.size / height), y, 0, y.size);
    }

    public static void columns(Workers workers, long from, View x, View y) {
        workers.rows(y.rows, y.last, (row, s, at) -> x.copy(row * x.last + from, y, row * y.last, y.last));
    }

    public static void pad(Workers workers, long from, View x, View y) {
        workers.rows(y.rows, y.last, (row, s, at) -> {
            long start = row * y.last;
            long end = from + x.last;
            y.clear(start, from);
            x.copy(row * x.last, y, start + from, x.last);
            y.clear(start + end, y.last - end);
        });
    }

    public static void concat(Workers workers, View[] parts, View y) {
        long at = 0;
        for (View part : parts) {
            copy(workers, part, 0, y, at, part.size);
            at += part.size;
        }
    }

    private static void copy(Workers workers, View x, long from, View y, long to, long size) {
        workers.run(Workers.count(size, COPY), (chunk, s, at) -> {
            long start = chunk * COPY;
            x.copy(from + start, y, to + start, Math.min(COPY, size - start));
        });
    }

    private static void check(String op, View rows, long height) {
        for (long n = 0; n < rows.size; n++) {
            int row = rows.index(n);
            if (row < 0 || row >= height) {
                throw new TensorException(op + ": row " + row + " of a table with " + height + " rows");
            }
        }
    }
}
