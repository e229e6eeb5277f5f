package dev.starforge.tensor.codec;

/**
 * Finds the scale of a sub-block. The scale that just reaches the extreme weight is rarely the best: a slightly larger or
 * smaller grid often rounds the bulk better. The searches try a ladder of grids, fit the scale (and offset) to the
 * rounded quants by weighted least squares, and keep what errs least. The ladders, and the order of every sum, are those
 * of llama.cpp's reference quantizers, so that both write the same file.
 */
final class ScaleSearch {
    private static final float NOTHING = 1e-15f;

    private ScaleSearch() {}

    /** {@code x ~ scale * code - shift} with quants from 0. */
    record AffineFit(float scale, float shift) {}

    /** A ladder of grids: {@code first + i * step} quants more than {@code top}, for i from 0 to {@code steps}. */
    record Ladder(int top, float first, float step, int steps) {}

    /** Scale and offset of least weighted error, which is counted in squares, or in magnitudes if {@code linear}. */
    static AffineFit affine(float[] x, int at, float[] weights, Ladder ladder, boolean linear) {
        int n = weights.length;
        float min = Math.min(0, x[at]);
        float max = x[at];
        float w0 = 0;
        float wx = 0;
        for (int i = 0; i < n; i++) {
            min = Math.min(min, x[at + i]);
            max = Math.max(max, x[at + i]);
            w0 += weights[i];
            wx += weights[i] * x[at + i];
        }
        if (max == min) {
            return new AffineFit(0, -min);
        }
        int[] quants = new int[n];
        float density = ladder.top() / (max - min);
        float scale = 1 / density;
        round(x, at, min, density, ladder.top(), quants);
        float least = error(x, at, weights, quants, scale, min, linear);
        for (int step = 0; step <= ladder.steps(); step++) {
            density = (ladder.first() + ladder.step() * step + ladder.top()) / (max - min);
            round(x, at, min, density, ladder.top(), quants);
            float wl = 0;
            float wll = 0;
            float wlx = 0;
            for (int i = 0; i < n; i++) {
                float weighted = weights[i] * quants[i];
                wl += weighted;
                wll += weighted * quants[i];
                wlx += weighted * x[at + i];
            }
            float determinant = w0 * wll - wl * wl;
            if (determinant > 0) {
                float fitted = (w0 * wlx - wx * wl) / determinant;
                float base = (wll * wx - wl * wlx) / determinant;
                if (base > 0) {
                    base = 0;
                    fitted = wlx / wll;
                }
                float error = error(x, at, weights, quants, fitted, base, linear);
                if (error < least) {
                    least = error;
                    scale = fitted;
                    min = base;
                }
            }
        }
        return new AffineFit(scale, -min);
    }

    private static void round(float[] x, int at, float min, float density, int top, int[] quants) {
        for (int i = 0; i < quants.length; i++) {
            quants[i] = CodecMath.nearest(density * (x[at + i] - min), 0, top);
        }
    }

    private static float error(
            float[] x, int at, float[] weights, int[] quants, float scale, float min, boolean linear) {
        float sum = 0;
        for (int i = 0; i < quants.length; i++) {
            float difference = scale * quants[i] + min - x[at + i];
            sum += weights[i] * (linear ? Math.abs(difference) : difference * difference);
        }
        return sum;
    }

    /** {@code x ~ scale * code} with quants from {@code -half} to {@code half - 1}; large weights count by their square. */
    static float symmetric(float[] x, int at, int n, int half) {
        float extreme = CodecMath.extreme(x, at, n);
        if (Math.abs(extreme) < NOTHING) {
            return 0;
        }
        float scale = 0;
        float best = 0;
        for (int rung = 0; rung < 19; rung++) {
            int step = rung == 0 ? 0 : rung <= 9 ? rung - 10 : rung - 9;
            float density = -(half + 0.1f * step) / extreme;
            float xl = 0;
            float ll = 0;
            for (int i = at; i < at + n; i++) {
                int code = CodecMath.nearest(density * x[i], -half, half - 1);
                float weight = x[i] * x[i];
                xl += weight * x[i] * code;
                ll += weight * code * code;
            }
            if (step == 0 || ll > 0 && xl * xl > best * ll) {
                scale = ll == 0 ? 0 : xl / ll;
                best = scale * xl;
            }
        }
        return scale;
    }

    /**
     * As {@link #symmetric}, on one grid: code after code is moved to where it serves the scale fitted to all the others,
     * until none moves, at most five times round.
     */
    static float descent(float[] x, int at, int n, int half) {
        float extreme = CodecMath.extreme(x, at, n);
        if (Math.abs(extreme) < NOTHING) {
            return 0;
        }
        int[] quants = new int[n];
        float xl = 0;
        float ll = 0;
        for (int i = 0; i < n; i++) {
            quants[i] = CodecMath.nearest(-half / extreme * x[at + i], -half, half - 1);
            float weight = x[at + i] * x[at + i];
            xl += weight * x[at + i] * quants[i];
            ll += weight * quants[i] * quants[i];
        }
        boolean moved = true;
        for (int round = 0; round < 5 && moved; round++) {
            moved = false;
            for (int i = 0; i < n; i++) {
                float weight = x[at + i] * x[at + i];
                float newXl = xl - weight * x[at + i] * quants[i];
                float newLl = ll - weight * quants[i] * quants[i];
                if (newXl > 0) {
                    int code = CodecMath.nearest(x[at + i] * newLl / newXl, -half, half - 1);
                    newXl += weight * x[at + i] * code;
                    newLl += weight * code * code;
                    if (code != quants[i] && newLl > 0 && newXl * newXl * ll > xl * xl * newLl) {
                        quants[i] = code;
                        xl = newXl;
                        ll = newLl;
                        moved = true;
                    }
                }
            }
        }
        return ll > 0 ? xl / ll : 0;
    }
}
