package dev.starforge.cpu.rowwise;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.Sums;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.elementwise.Elementwise;
import dev.starforge.tensor.op.Operands.RmsNormGradInputs;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/** x * rstd * w, row by row. The gradient of w is summed over the rows in a second pass, by columns. */
public final class RmsNorm {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final int STRIP = Scratch.STRIP;

    private RmsNorm() {}

    /** (x, w) -> y, rstd. */
    public static void forward(Workers workers, float eps, View[] in, View[] out) {
        View x = in[0];
        long c = x.last;
        workers.rows(x.rows, c, (row, s, at) -> {
            double square = 0;
            for (long i = 0; i < c; i += STRIP) {
                int count = (int) Math.min(STRIP, c - i);
                x.load(row * c + i, count, s, at);
                square += Sums.dot(s, at, at, count, at + STRIP);
            }
            float rstd = (float) (1 / Math.sqrt(square / Math.max(1, c) + eps));
            for (long i = 0; i < c; i += STRIP) {
                int count = (int) Math.min(STRIP, c - i);
                x.load(row * c + i, count, s, at);
                in[1].load(i, count, s, at + STRIP);
                Elementwise.affine(s, at, count, rstd, 0);
                Elementwise.mul(s, at, at + STRIP, count);
                out[0].store(row * c + i, count, s, at);
            }
            out[1].set(row, rstd);
        });
    }

    /** (x, w, rstd, dy) -> dx[, dw]. */
    public static void gradient(Workers workers, RmsNormGradInputs<View> in, View[] out) {
        View x = in.x();
        View dy = in.dy();
        long c = x.last;
        workers.rows(x.rows, c, (row, s, at) -> {
            float rstd = in.rstd().at(row);
            double dot = 0;
            for (long i = 0; i < c; i += STRIP) {
                int count = (int) Math.min(STRIP, c - i);
                load(in, rstd, row * c + i, i, count, s, at);
                dot += Sums.dot(s, at, at + STRIP, count, at + 2 * STRIP);
            }
            float mean = (float) (dot / c);
            for (long i = 0; i < c; i += STRIP) {
                int count = (int) Math.min(STRIP, c - i);
                load(in, rstd, row * c + i, i, count, s, at);
                backward(s, at, at + STRIP, count, rstd, mean);
                out[0].store(row * c + i, count, s, at);
            }
        });
        if (out.length > 1) {
            ColumnSums.sum(workers, x.rows, c, new View[] {out[1]}, (row, column, count, s, at, sum) -> {
                x.load(row * c + column, count, s, at);
                dy.load(row * c + column, count, s, at + ColumnSums.WIDTH);
                weight(s, at, at + ColumnSums.WIDTH, sum, count, in.rstd().at(row));
            });
        }
    }

    /** Loads x * rstd to {@code at} and dy * w to the next strip. */
    private static void load(
            RmsNormGradInputs<View> in, float rstd, long from, long column, int count, float[] s, int at) {
        in.x().load(from, count, s, at);
        in.dy().load(from, count, s, at + STRIP);
        in.w().load(column, count, s, at + 2 * STRIP);
        Elementwise.affine(s, at, count, rstd, 0);
        Elementwise.mul(s, at + STRIP, at + 2 * STRIP, count);
    }

    /** x = rstd * (d - x * mean), with x normalized. */
    private static void backward(float[] s, int x, int d, int n, float rstd, float mean) {
        FloatVector minusMean = FloatVector.broadcast(SPECIES, -mean);
        for (int i = 0; i < n; i += W) {
            FloatVector normal = FloatVector.fromArray(SPECIES, s, x + i);
            normal.fma(minusMean, FloatVector.fromArray(SPECIES, s, d + i))
                    .mul(rstd)
                    .intoArray(s, x + i);
        }
    }

    /** sum += dy * x * rstd. */
    private static void weight(float[] s, int x, int dy, int sum, int n, float rstd) {
        for (int i = 0; i < n; i += W) {
            FloatVector normal = FloatVector.fromArray(SPECIES, s, x + i).mul(rstd);
            normal.fma(FloatVector.fromArray(SPECIES, s, dy + i), FloatVector.fromArray(SPECIES, s, sum + i))
                    .intoArray(s, sum + i);
        }
    }
}
