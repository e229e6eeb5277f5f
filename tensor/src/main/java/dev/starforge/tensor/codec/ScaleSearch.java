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

    /** {@code x ~ scale * quant - shift} with quants from 0. */
    record AffineFit(float scale, float shift, int[] quants) {}

    /** {@code x ~ scale * quant}. */
    record Fit(float scale, int[] quants) {}

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
            return new AffineFit(0, -min, new int[n]);
        }
        int[] quants = new int[n];
        float density = ladder.top() / (max - min);
        float scale = 1 / density;
        round(x, at, min, density, ladder.top(), quants);
        float least = error(x, at, weights, quants, scale, min, linear);
        int[] best = quants.clone();
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
                    best = quants.clone();
                }
            }
        }
        return new AffineFit(scale, -min, best);
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

    /** {@code x ~ scale * quant} with quants from {@code -half} to {@code half - 1}. */
    static Fit symmetric(float[] x, int at, float[] weights, int half) {
        int n = weights.length;
        float extreme = CodecMath.extreme(x, at, n);
        if (Math.abs(extreme) < NOTHING) {
            return new Fit(0, new int[n]);
        }
        float scale = 0;
        float best = 0;
        float bestDensity = 0;
        for (int rung = 0; rung < 19; rung++) {
            int step = rung == 0 ? 0 : rung <= 9 ? rung - 10 : rung - 9;
            float density = -(half + 0.1f * step) / extreme;
            float xl = 0;
            float ll = 0;
            for (int i = 0; i < n; i++) {
                int quant = CodecMath.nearest(density * x[at + i], -half, half - 1);
                xl += weights[i] * x[at + i] * quant;
                ll += weights[i] * quant * quant;
            }
            if (step == 0 || ll > 0 && xl * xl > best * ll) {
                scale = ll == 0 ? 0 : xl / ll;
                best = scale * xl;
                bestDensity = density;
            }
        }
        int[] quants = new int[n];
        for (int i = 0; i < n; i++) {
            quants[i] = CodecMath.nearest(bestDensity * x[at + i], -half, half - 1);
        }
        return new Fit(scale, quants);
    }

    /** Large weights count by their square. */
    static float[] squares(float[] x, int at, int n) {
        float[] squares = new float[n];
        for (int i = 0; i < n; i++) {
            squares[i] = x[at + i] * x[at + i];
        }
        return squares;
    }

    /**
     * {@code x ~ scale * quant} for x of at least 0, with quants from 0 to {@code top}: the best of nine grids, whose quants are
     * then {@linkplain #descend moved} one after another.
     */
    static Fit positive(float[] x, float[] weights, int top) {
        int n = x.length;
        float max = Math.max(0, CodecMath.extreme(x, 0, n));
        if (max < NOTHING) {
            return new Fit(0, new int[n]);
        }
        float density = top / max;
        float least = gridError(x, weights, density, top);
        for (int step = -4; step <= 4; step++) {
            float tried = (0.1f * step + top) / max;
            float error = step == 0 ? least : gridError(x, weights, tried, top);
            if (error < least) {
                least = error;
                density = tried;
            }
        }
        int[] quants = new int[n];
        for (int i = 0; i < n; i++) {
            quants[i] = CodecMath.nearest(density * x[i], 0, top);
        }
        return new Fit(descend(x, 0, weights, quants, 0, top), quants);
    }

    private static float gridError(float[] x, float[] weights, float density, int top) {
        float scale = 1 / density;
        float sum = 0;
        for (int i = 0; i < x.length; i++) {
            float difference = x[i] - scale * CodecMath.nearest(density * x[i], 0, top);
            sum += weights[i] * difference * difference;
        }
        return sum;
    }

    /** As {@link #symmetric}, on one grid, whose quants are then {@linkplain #descend moved} one after another. */
    static float descent(float[] x, int at, int n, int half) {
        float extreme = CodecMath.extreme(x, at, n);
        if (Math.abs(extreme) < NOTHING) {
            return 0;
        }
        int[] quants = new int[n];
        for (int i = 0; i < n; i++) {
            quants[i] = CodecMath.nearest(-half / extreme * x[at + i], -half, half - 1);
        }
        return descend(x, at, squares(x, at, n), quants, -half, half - 1);
    }

    /**
     * Moves quant after quant to where it serves the scale fitted to all the others, until none moves, at most five times
     * round. Returns the scale.
     */
    private static float descend(float[] x, int at, float[] weights, int[] quants, int low, int high) {
        float xl = 0;
        float ll = 0;
        for (int i = 0; i < quants.length; i++) {
            xl += weights[i] * x[at + i] * quants[i];
            ll += weights[i] * quants[i] * quants[i];
        }
        boolean moved = true;
        for (int round = 0; round < 5 && moved; round++) {
            moved = false;
            for (int i = 0; i < quants.length; i++) {
                float newXl = xl - weights[i] * x[at + i] * quants[i];
                float newLl = ll - weights[i] * quants[i] * quants[i];
                if (newXl > 0) {
                    int quant = CodecMath.nearest(x[at + i] * newLl / newXl, low, high);
                    newXl += weights[i] * x[at + i] * quant;
                    newLl += weights[i] * quant * quant;
                    if (quant != quants[i] && newLl > 0 && newXl * newXl * ll > xl * xl * newLl) {
                        quants[i] = quant;
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
