package dev.starforge.data.dataset.split;

import dev.starforge.data.Split;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import java.util.stream.IntStream;

/**
 * The commit times at which the splits end. Commits up to and including {@code train} are training data, those up to and
 * including {@code validation} are validation data, and newer ones are test data: a model is used on newer code than it was
 * trained on.
 */
public record SplitBoundaries(long train, long validation) {
    /** Before the boundaries are known, all commits are training data. */
    public static final SplitBoundaries ALL_TRAIN = new SplitBoundaries(Long.MAX_VALUE, Long.MAX_VALUE);

    /**
     * Divides the commits by the configured shares. With three commits or more every split gets at least one, unless its
     * share is 0 or commits have equal times.
     *
     * @param useful the commits that still have chunks; the others are ignored
     */
    public static SplitBoundaries of(long[] times, boolean[] useful, DatasetConfig config) {
        long[] sorted = IntStream.range(0, times.length)
                .filter(i -> useful[i])
                .mapToLong(i -> times[i])
                .sorted()
                .toArray();
        if (sorted.length == 0) {
            return ALL_TRAIN;
        }
        double testShare = config.get(DatasetKeys.TEST);
        double validationShare = config.get(DatasetKeys.VALIDATION);
        double all = config.get(DatasetKeys.TRAIN) + validationShare + testShare;
        int n = sorted.length;
        int test = testShare == 0 || n < 3 ? 0 : Math.max(1, (int) Math.round(n * testShare / all));
        int validation = validationShare == 0 || n < 2 ? 0 : Math.max(1, (int) Math.round(n * validationShare / all));
        int train = Math.max(1, n - test - validation);
        long first = sorted[train - 1];
        long second = test == 0 ? Long.MAX_VALUE : sorted[Math.min(n - 1, train + validation - 1)];
        return new SplitBoundaries(validation == 0 && test == 0 ? Long.MAX_VALUE : first, Math.max(first, second));
    }

    public Split of(long time) {
        return time <= train ? Split.TRAIN : time <= validation ? Split.VALIDATION : Split.TEST;
    }
}
