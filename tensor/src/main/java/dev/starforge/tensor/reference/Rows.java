package dev.starforge.tensor.reference;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Operands.StoreInt8Inputs;
import dev.starforge.tensor.op.Plain.Sum;
import java.util.List;

/** What moves or adds rows. */
final class Rows {
    private Rows() {}

    static void permute(List<Integer> axes, Shape from, View x, View y) {
        int rank = axes.size();
        long[] strides = new long[rank];
        long stride = 1;
        for (int axis = rank - 1; axis >= 0; axis--) {
            strides[axis] = stride;
            stride *= from.dim(axis);
        }
        for (long i = 0; i < y.size; i++) {
            long rest = i;
            long source = 0;
            for (int axis = rank - 1; axis >= 0; axis--) {
                long dim = from.dim(axes.get(axis));
                source += rest % dim * strides[axes.get(axis)];
                rest /= dim;
            }
            y.set(i, x.at(source));
        }
    }

    static void sum(Sum.Over over, View x, View y) {
        for (long out = 0; out < y.size; out++) {
            double sum = 0;
            switch (over) {
                case LAST -> {
                    for (long i = 0; i < x.last; i++) {
                        sum += x.at(out * x.last + i);
                    }
                }
                case LEADING -> {
                    for (long row = 0; row < x.rows; row++) {
                        sum += x.at(row * x.last + out);
                    }
                }
            }
            y.set(out, sum);
        }
    }

    static void pick(View x, View ids, View y) {
        for (long i = 0; i < y.size; i++) {
            int id = ids.index(i);
            y.set(i, id >= 0 && id < x.last ? x.at(i / y.last * x.last + id) : 0);
        }
    }

    static void unpick(View d, View ids, View y) {
        y.fill(0);
        for (long i = 0; i < d.size; i++) {
            int id = ids.index(i);
            if (id >= 0 && id < y.last) {
                long at = i / d.last * y.last + id;
                y.set(at, y.at(at) + d.at(i));
            }
        }
    }

    static void gather(View table, long height, View rows, View y) {
        long width = rows.size == 0 ? 0 : y.size / rows.size;
        for (long n = 0; n < rows.size; n++) {
            long row = row("Gather", rows, n, height);
            for (long i = 0; i < width; i++) {
                y.set(n * width + i, table.at(row * width + i));
            }
        }
    }

    private static long row(String op, View rows, long n, long height) {
        int row = rows.index(n);
        if (row < 0 || row >= height) {
            throw new TensorException(op + ": row " + row + " of a table with " + height + " rows");
        }
        return row;
    }

    static void scatterAdd(View x, View rows, long height, View y) {
        long width = rows.size == 0 ? 0 : x.size / rows.size;
        double[] sum = new double[Math.toIntExact(y.size)];
        for (long n = 0; n < rows.size; n++) {
            long row = row("ScatterAdd", rows, n, height);
            for (long i = 0; i < width; i++) {
                sum[Math.toIntExact(row * width + i)] += x.at(n * width + i);
            }
        }
        for (int i = 0; i < sum.length; i++) {
            y.set(i, sum[i]);
        }
    }

    static void slice(long from, long height, View x, View y) {
        long width = height == 0 ? 0 : x.size / height;
        for (long i = 0; i < y.size; i++) {
            y.set(i, x.at(from * width + i));
        }
    }

    static void columns(long from, View x, View y) {
        for (long i = 0; i < y.size; i++) {
            y.set(i, x.at(i / y.last * x.last + from + i % y.last));
        }
    }

    static void pad(long from, View x, View y) {
        y.fill(0);
        for (long i = 0; i < x.size; i++) {
            y.set(i / x.last * y.last + from + i % x.last, x.at(i));
        }
    }

    static void concat(View[] parts, View y) {
        long at = 0;
        for (View part : parts) {
            for (long i = 0; i < part.size; i++) {
                y.set(at++, part.at(i));
            }
        }
    }

    static void store(View cache, View rows, long height, View x) {
        long width = rows.size == 0 ? 0 : x.size / rows.size;
        for (long n = 0; n < rows.size; n++) {
            long row = row("Store", rows, n, height);
            for (long i = 0; i < width; i++) {
                cache.set(row * width + i, x.at(n * width + i));
            }
        }
    }

    /** Scales are float32 until they are stored, as the operation says. */
    static void storeInt8(StoreInt8Inputs<View> in, long height) {
        View quants = in.values();
        View scales = in.scales();
        View x = in.x();
        long heads = scales.last;
        long d = quants.last;
        for (long n = 0; n < in.rows().size; n++) {
            long row = row("StoreInt8", in.rows(), n, height);
            for (long h = 0; h < heads; h++) {
                long from = (n * heads + h) * d;
                float most = 0;
                for (long i = 0; i < d; i++) {
                    most = Math.max(most, (float) Math.abs(x.at(from + i)));
                }
                scales.set(row * heads + h, Math.min(most / Decoding.StoreInt8.MAX_VALUE, 65504f));
                float scale = (float) scales.at(row * heads + h);
                for (long i = 0; i < d; i++) {
                    double code = scale == 0 ? 0 : Math.rint((float) x.at(from + i) / scale);
                    quants.set(
                            (row * heads + h) * d + i,
                            Math.clamp(code, -Decoding.StoreInt8.MAX_VALUE, Decoding.StoreInt8.MAX_VALUE));
                }
            }
        }
    }
}
