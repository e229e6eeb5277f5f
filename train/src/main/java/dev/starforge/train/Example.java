package dev.starforge.train;

import dev.starforge.tensor.ShapeException;

/**
 * One sequence to learn from.
 *
 * @param ids its tokens
 * @param labels for each token what it is when it is predicted, or {@link #IGNORED}; shifted here, not by the caller
 */
public record Example(int[] ids, int[] labels) {
    /** A label that does not count, as HF spells it. */
    public static final int IGNORED = -100;

    public Example {
        if (ids.length != labels.length) {
            throw new ShapeException("example: " + ids.length + " tokens but " + labels.length + " labels");
        }
    }

    /** How many predictions count: every labelled token but the first, which nothing predicts. */
    int targets() {
        int count = 0;
        for (int i = 1; i < labels.length; i++) {
            count += labels[i] == IGNORED ? 0 : 1;
        }
        return count;
    }
}
