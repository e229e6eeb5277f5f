package dev.starforge.train.eval;

import dev.starforge.tensor.Philox;
import java.util.Arrays;

/**
 * A mean or a ratio of sums with its 95 % confidence interval, from a thousand bootstrap samples (Efron 1979). The
 * random numbers are counter-based, so results are reproducible, and compared metrics share their samples.
 */
record BootstrapInterval(double value, double low, double high) {
    private static final int SAMPLES = 1000;
    private static final int SITE = 0x424f4f54;

    /** sum(above) / sum(below). */
    static BootstrapInterval ratio(double[] above, double[] below) {
        return of(above.length, indices -> sum(above, indices) / sum(below, indices));
    }

    static BootstrapInterval mean(double[] values) {
        double[] ones = new double[values.length];
        Arrays.fill(ones, 1);
        return ratio(values, ones);
    }

    /** The difference of two means over the same items. */
    static BootstrapInterval difference(double[] one, double[] other) {
        double[] differences = new double[one.length];
        Arrays.setAll(differences, i -> one[i] - other[i]);
        return mean(differences);
    }

    /**
     * The difference of two perplexities over the same items: exp(sum(one) / sum(tokens)) - exp(sum(other) /
     * sum(tokens)).
     */
    static BootstrapInterval perplexities(double[] one, double[] other, double[] tokens) {
        return of(
                tokens.length,
                indices -> Math.exp(sum(one, indices) / sum(tokens, indices))
                        - Math.exp(sum(other, indices) / sum(tokens, indices)));
    }

    private interface Statistic {
        double of(int[] indices);
    }

    private static BootstrapInterval of(int count, Statistic statistic) {
        int[] indices = new int[count];
        Arrays.setAll(indices, i -> i);
        double value = statistic.of(indices);
        double[] values = new double[SAMPLES];
        for (int s = 0; s < SAMPLES; s++) {
            for (int i = 0; i < count; i++) {
                indices[i] = (int) ((Philox.words(i, s, SITE, 0, count, 0)[0] & 0xffffffffL) * count >>> 32);
            }
            values[s] = statistic.of(indices);
        }
        Arrays.sort(values);
        return new BootstrapInterval(value, values[SAMPLES / 40], values[SAMPLES - 1 - SAMPLES / 40]);
    }

    private static double sum(double[] values, int[] indices) {
        double sum = 0;
        for (int i : indices) {
            sum += values[i];
        }
        return sum;
    }
}
