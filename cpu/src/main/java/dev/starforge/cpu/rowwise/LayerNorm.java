package dev.starforge.cpu.rowwise;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.Sums;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.elementwise.Elementwise;
import dev.starforge.tensor.op.Operands.LayerNormGradInputs;
import dev.starforge.tensor.op.Operands.LayerNormGradOutputs;
import dev.starforge.tensor.op.Operands.LayerNormOutputs;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * (x - mean) * rstd * w + b, row by row. The variance is computed from the centered row in a second pass, which avoids
 * cancellation. Gradients of w and b are summed over the rows by columns.
 */
public final class LayerNorm {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final int STRIP = Scratch.STRIP;

    private LayerNorm() {}

    /** (x, w, b) -> y, mean, rstd. */
    public static void forward(Workers workers, float eps, View[] in, LayerNormOutputs<View> out) {
        View x = in[0];
        long c = x.last;
        workers.rows(x.rows, c, (row, s, at) -> {
            double sum = 0;
            for (long i = 0; i < c; i += STRIP) {
                int count = (int) Math.min(STRIP, c - i);
                x.load(row * c + i, count, s, at);
                sum += Sums.sum(s, at, count, at + STRIP);
            }
            float mean = (float) (sum / Math.max(1, c));
            double square = 0;
            for (long i = 0; i < c; i += STRIP) {
                int count = (int) Math.min(STRIP, c - i);
                x.load(row * c + i, count, s, at);
                Elementwise.affine(s, at, count, 1, -mean);
                square += Sums.dot(s, at, at, count, at + STRIP);
            }
            float rstd = (float) (1 / Math.sqrt(square / Math.max(1, c) + eps));
            for (long i = 0; i < c; i += STRIP) {
                int count = (int) Math.min(STRIP, c - i);
                x.load(row * c + i, count, s, at);
                in[1].load(i, count, s, at + STRIP);
                in[2].load(i, count, s, at + 2 * STRIP);
                normalize(s, at, count, mean, rstd);
                Elementwise.mul(s, at, at + STRIP, count);
                Elementwise.add(s, at, at + 2 * STRIP, count);
                out.y().store(row * c + i, count, s, at);
            }
            out.mean().set(row, mean);
            out.rstd().set(row, rstd);
        });
    }

    /** (x, w, b, mean, rstd, dy) -> dx[, dw, db]. */
    public static void gradient(Workers workers, LayerNormGradInputs<View> in, View[] out) {
        View x = in.x();
        View dy = in.dy();
        long c = x.last;
        workers.rows(x.rows, c, (row, s, at) -> {
            double sum = 0;
            double dot = 0;
            for (long i = 0; i < c; i += STRIP) {
                int count = (int) Math.min(STRIP, c - i);
                load(in, row, i, count, s, at);
                sum += Sums.sum(s, at + STRIP, count, at + 2 * STRIP);
                dot += Sums.dot(s, at, at + STRIP, count, at + 2 * STRIP);
            }
            for (long i = 0; i < c; i += STRIP) {
                int count = (int) Math.min(STRIP, c - i);
                load(in, row, i, count, s, at);
                backward(s, at, at + STRIP, count, in.rstd().at(row), (float) (sum / c), (float) (dot / c));
                out[0].store(row * c + i, count, s, at);
            }
        });
        if (out.length > 1) {
            LayerNormGradOutputs<View> weights = LayerNormGradOutputs.of(out);
            View[] sums = {weights.dw(), weights.db()};
            ColumnSums.sum(workers, x.rows, c, sums, (row, column, count, s, at, total) -> {
                x.load(row * c + column, count, s, at);
                dy.load(row * c + column, count, s, at + ColumnSums.WIDTH);
                normalize(s, at, count, in.mean().at(row), in.rstd().at(row));
                Elementwise.mul(s, at, at + ColumnSums.WIDTH, count);
                Elementwise.add(s, total, at, count);
                Elementwise.add(s, total + ColumnSums.WIDTH, at + ColumnSums.WIDTH, count);
            });
        }
    }

    /** Loads the normalized row to {@code at} and dy * w to the next strip. */
    private static void load(LayerNormGradInputs<View> in, long row, long column, int count, float[] s, int at) {
        long from = row * in.x().last + column;
        in.x().load(from, count, s, at);
        in.dy().load(from, count, s, at + STRIP);
        in.w().load(column, count, s, at + 2 * STRIP);
        normalize(s, at, count, in.mean().at(row), in.rstd().at(row));
        Elementwise.mul(s, at + STRIP, at + 2 * STRIP, count);
    }

    /** x = (x - mean) * rstd. */
    private static void normalize(float[] s, int x, int n, float mean, float rstd) {
        for (int i = x; i < x + n; i += W) {
            FloatVector.fromArray(SPECIES, s, i).sub(mean).mul(rstd).intoArray(s, i);
        }
    }

    /** x = rstd * (d - sum - x * dot), with x normalized. */
    private static void backward(float[] s, int x, int d, int n, float rstd, float sum, float dot) {
        FloatVector minusDot = FloatVector.broadcast(SPECIES, -dot);
        for (int i = 0; i < n; i += W) {
            FloatVector normal = FloatVector.fromArray(SPECIES, s, x + i);
            FloatVector centered = FloatVector.fromArray(SPECIES, s, d + i).sub(sum);
            normal.fma(minusDot, centered).mul(rstd).intoArray(s, x + i);
        }
    }
}
