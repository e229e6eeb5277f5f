package dev.starforge.tensor.reference;

import dev.starforge.tensor.op.Operands.LayerNormGradInputs;
import dev.starforge.tensor.op.Operands.LayerNormGradOutputs;
import dev.starforge.tensor.op.Operands.LayerNormOutputs;

final class LayerNorm {
    private LayerNorm() {}

    static void forward(double eps, View[] in, LayerNormOutputs<View> out) {
        View x = in[0];
        long c = x.last;
        for (long row = 0; row < x.rows; row++) {
            double mean = 0;
            for (long i = 0; i < c; i++) {
                mean += x.at(row * c + i) / c;
            }
            double variance = 0;
            for (long i = 0; i < c; i++) {
                double centered = x.at(row * c + i) - mean;
                variance += centered * centered / c;
            }
            double rstd = 1 / Math.sqrt(variance + eps);
            for (long i = 0; i < c; i++) {
                out.y().set(row * c + i, (x.at(row * c + i) - mean) * rstd * in[1].at(i) + in[2].at(i));
            }
            out.mean().set(row, mean);
            out.rstd().set(row, rstd);
        }
    }

    /** (x, w, b, mean, rstd, dy) -> dx[, dw, db]. */
    static void gradient(LayerNormGradInputs<View> in, View[] out) {
        View x = in.x();
        View dy = in.dy();
        long c = x.last;
        double[] dw = new double[Math.toIntExact(c)];
        double[] db = new double[Math.toIntExact(c)];
        for (long row = 0; row < x.rows; row++) {
            double mean = in.mean().at(row);
            double rstd = in.rstd().at(row);
            double sum = 0;
            double dot = 0;
            for (int i = 0; i < c; i++) {
                double normal = (x.at(row * c + i) - mean) * rstd;
                double d = dy.at(row * c + i);
                sum += d * in.w().at(i) / c;
                dot += d * in.w().at(i) * normal / c;
                dw[i] += d * normal;
                db[i] += d;
            }
            for (int i = 0; i < c; i++) {
                double normal = (x.at(row * c + i) - mean) * rstd;
                out[0].set(row * c + i, rstd * (dy.at(row * c + i) * in.w().at(i) - sum - normal * dot));
            }
        }
        if (out.length > 1) {
            LayerNormGradOutputs<View> weights = LayerNormGradOutputs.of(out);
            for (int i = 0; i < c; i++) {
                weights.dw().set(i, dw[i]);
                weights.db().set(i, db[i]);
            }
        }
    }
}
