package dev.starforge.train.eval;

import java.util.HashMap;
import java.util.Map;

/**
 * Simple byte models as a baseline: a language model that does no better has learned nothing. Both are trained on one
 * text and evaluated on another, in bits per byte.
 */
final class ByteModels {
    private static final int SYMBOLS = 256;

    private ByteModels() {}

    /** Interpolated Kneser-Ney of order 3 with one discount for each order (Kneser and Ney 1995; Chen and Goodman 1999). */
    static double kneserNey(byte[] train, byte[] test) {
        // 1: continuation of a byte, 2: of a pair, 3: counts of triples
        Map<Integer, int[]> triples = new HashMap<>();
        for (int i = 2; i < train.length; i++) {
            triples.computeIfAbsent((train[i - 2] & 0xff) << 8 | train[i - 1] & 0xff, key -> new int[SYMBOLS])[
                    train[i] & 0xff]++;
        }
        Map<Integer, int[]> pairs = new HashMap<>(); // distinct bytes that precede a pair
        triples.forEach((context, counts) -> {
            for (int c = 0; c < SYMBOLS; c++) {
                if (counts[c] > 0) {
                    pairs.computeIfAbsent(context & 0xff, key -> new int[SYMBOLS])[c]++;
                }
            }
        });
        int[] singles = new int[SYMBOLS]; // distinct bytes that precede a byte
        pairs.forEach((context, counts) -> {
            for (int c = 0; c < SYMBOLS; c++) {
                singles[c] += counts[c] > 0 ? 1 : 0;
            }
        });
        Level one = Level.of(Map.of(0, singles));
        Level two = Level.of(pairs);
        Level three = Level.of(triples);
        double bits = 0;
        for (int i = 2; i < test.length; i++) {
            int c = test[i] & 0xff;
            double p = one.probability(0, c, 1.0 / SYMBOLS);
            p = two.probability(test[i - 1] & 0xff, c, p);
            p = three.probability((test[i - 2] & 0xff) << 8 | test[i - 1] & 0xff, c, p);
            bits -= Math.log(p) / Math.log(2);
        }
        return test.length <= 2 ? 0 : bits / (test.length - 2);
    }

    /** Counts of one order and its discount, n1 / (n1 + 2 n2). */
    private record Level(Map<Integer, int[]> counts, double discount) {
        static Level of(Map<Integer, int[]> counts) {
            long once = 0;
            long twice = 0;
            for (int[] row : counts.values()) {
                for (int count : row) {
                    once += count == 1 ? 1 : 0;
                    twice += count == 2 ? 1 : 0;
                }
            }
            return new Level(counts, once == 0 ? 0.5 : once / (once + 2.0 * twice));
        }

        double probability(int context, int symbol, double lower) {
            int[] row = counts.get(context);
            if (row == null) {
                return lower;
            }
            long sum = 0;
            int kinds = 0;
            for (int count : row) {
                sum += count;
                kinds += count > 0 ? 1 : 0;
            }
            return Math.max(row[symbol] - discount, 0) / sum + discount * kinds / sum * lower;
        }
    }

    /**
     * Prediction by partial matching of order 5, method C (Moffat 1990), with exclusion. It also learns from the text
     * it is evaluated on, as a compressor does.
     */
    static double partialMatching(byte[] train, byte[] test) {
        Map<Long, Map<Integer, Integer>> contexts = new HashMap<>();
        byte[] all = new byte[train.length + test.length];
        System.arraycopy(train, 0, all, 0, train.length);
        System.arraycopy(test, 0, all, train.length, test.length);
        double bits = 0;
        for (int i = 0; i < all.length; i++) {
            if (i >= train.length) {
                bits -= Math.log(probability(contexts, all, i)) / Math.log(2);
            }
            for (int order = 0; order <= Math.min(5, i); order++) {
                contexts.computeIfAbsent(key(all, i, order), key -> new HashMap<>())
                        .merge(all[i] & 0xff, 1, Integer::sum);
            }
        }
        return test.length == 0 ? 0 : bits / test.length;
    }

    private static double probability(Map<Long, Map<Integer, Integer>> contexts, byte[] all, int at) {
        boolean[] excluded = new boolean[SYMBOLS];
        int left = SYMBOLS;
        int symbol = all[at] & 0xff;
        double p = 1;
        for (int order = Math.min(5, at); order >= 0; order--) {
            Map<Integer, Integer> counts = contexts.getOrDefault(key(all, at, order), Map.of());
            long sum = 0;
            int kinds = 0;
            for (Map.Entry<Integer, Integer> count : counts.entrySet()) {
                if (!excluded[count.getKey()]) {
                    sum += count.getValue();
                    kinds++;
                }
            }
            if (kinds == 0) {
                continue;
            }
            int own = counts.getOrDefault(symbol, 0);
            if (own > 0) {
                return p * own / (sum + kinds);
            }
            p *= (double) kinds / (sum + kinds);
            for (int seen : counts.keySet()) {
                left -= excluded[seen] ? 0 : 1;
                excluded[seen] = true;
            }
        }
        return p / left;
    }

    private static long key(byte[] all, int at, int order) {
        long key = order;
        for (int i = at - order; i < at; i++) {
            key = key << 8 | all[i] & 0xff;
        }
        return key;
    }
}
