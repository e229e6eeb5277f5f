package dev.starforge.train.verify;

/** Error measures of logits. */
public final class Logits {
    private Logits() {}

    /** Largest minus smallest logit, the scale of errors. */
    public static double range(float[] logits) {
        double low = Double.POSITIVE_INFINITY;
        double high = Double.NEGATIVE_INFINITY;
        for (float logit : logits) {
            low = Math.min(low, logit);
            high = Math.max(high, logit);
        }
        return high - low;
    }

    public static double maxAbsError(float[] actual, float[] expected) {
        return maxAbsError(actual, expected, 0, expected.length);
    }

    /** Largest absolute error in a range of elements; NaN if either side has a NaN. */
    public static double maxAbsError(float[] actual, float[] expected, int from, int to) {
        double worst = 0;
        for (int i = from; i < to; i++) {
            worst = Math.max(worst, Math.abs((double) actual[i] - expected[i]));
        }
        return worst;
    }
}
