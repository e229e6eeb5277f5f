package dev.starforge.tensor.reference;

import dev.starforge.tensor.op.Operands.RmsNormGradInputs;

final class RmsNorm {
    private RmsNorm() {}

    static void forward(double eps, View[] in, View[] out) {
        View x = in[0];
        long c = x.last;
        for (long row = 0; row < x.rows; row++) {
            double square = 0;
            for (long i = 0; i < c; i++) {
                square += x.at(row * c + i) * x.at(row * c + i) / c;
            }
            double rstd = 1 / Math.sqrt(square + eps);
            for (long i = 0; i < c; i++) {
                out[0].set(row * c + i, x.at(row * c + i) * rstd * in[1].at(i));
            }
            out[1].set(row, rstd);
        }
    }

    /** (x, w, rstd, dy) -> dx[, dw]. */
    static void gradient(RmsNormGradInputs<View> in, View[] out) {
        View x = in.x();
        View dy = in.dy();
        long c = x.last;
        double[] dw = new double[Math.toIntExact(c)];
        for (long row = 0; row < x.rows; row++) {
            double rstd = in.rstd().at(row);
            double dot = 0;
            for (int i = 0; i < c; i++) {
                double normal = x.at(row * c + i) * rstd;
                dot += dy.at(row * c + i) * in.w().at(i) * normal / c;
                dw[i] += dy.at(row * c + i) * normal;
            }
            for (int i = 0; i < c; i++) {
                double normal = x.at(row * c + i) * rstd;
                out[0].set(row * c + i, rstd * (dy.at(row * c + i) * in.w().at(i) - normal * dot));
            }
        }
        for (int i = 0; i < c && out.length > 1; i++) {
            out[1].set(i, dw[i]);
        }
    }
}
