package dev.starforge.train.verify;

/** How far logits are from those expected. */
public final class Logits {
    private Logits() {}

    /** Largest minus smallest: what errors are measured against. */
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

    /** Of some elements; NaN where one is on either side, which is within no bound. */
    public static double maxAbsError(float[] actual, float[] expected, int from, int to) {
        double worst = 0;
        for (int i = from; i < to; i++) {
            worst = Math.max(worst, Math.abs((double) actual[i] - expected[i]));
        }
        return worst;
    }
}
