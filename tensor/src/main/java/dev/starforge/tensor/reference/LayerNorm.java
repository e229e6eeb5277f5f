package dev.starforge.tensor.reference;

final class LayerNorm {
    private LayerNorm() {}

    static void forward(double eps, View[] in, View[] out) {
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
                out[0].set(row * c + i, (x.at(row * c + i) - mean) * rstd * in[1].at(i) + in[2].at(i));
            }
            out[1].set(row, mean);
            out[2].set(row, rstd);
        }
    }

    /** (x, w, b, mean, rstd, dy) -> dx[, dw, db]. */
    static void gradient(View[] in, View[] out) {
        View x = in[0];
        View dy = in[5];
        long c = x.last;
        double[] dw = new double[Math.toIntExact(c)];
        double[] db = new double[Math.toIntExact(c)];
        for (long row = 0; row < x.rows; row++) {
            double mean = in[3].at(row);
            double rstd = in[4].at(row);
            double sum = 0;
            double dot = 0;
            for (int i = 0; i < c; i++) {
                double normal = (x.at(row * c + i) - mean) * rstd;
                double d = dy.at(row * c + i);
                sum += d * in[1].at(i) / c;
                dot += d * in[1].at(i) * normal / c;
                dw[i] += d * normal;
                db[i] += d;
            }
            for (int i = 0; i < c; i++) {
                double normal = (x.at(row * c + i) - mean) * rstd;
                out[0].set(row * c + i, rstd * (dy.at(row * c + i) * in[1].at(i) - sum - normal * dot));
            }
        }
        for (int i = 0; i < c && out.length > 1; i++) {
            out[1].set(i, dw[i]);
            out[2].set(i, db[i]);
        }
    }
}
