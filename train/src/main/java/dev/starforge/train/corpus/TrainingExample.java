package dev.starforge.train.corpus;

import dev.starforge.tensor.ShapeException;

/**
 * One text to learn from.
 *
 * @param ids its tokens
 * @param labels for each token what it is when it is predicted, or {@link #IGNORED}; shifted here, not by the caller
 * @param sample a number that no other example of the run has, so that its noise is its own
 * @param weight how much each of its predictions counts
 */
public record TrainingExample(int[] ids, int[] labels, int sample, float weight) {
    /** A label that does not count, as HF spells it. */
    public static final int IGNORED = -100;

    public TrainingExample {
        if (ids.length != labels.length) {
            throw new ShapeException("example: " + ids.length + " tokens but " + labels.length + " labels");
        }
    }

    public TrainingExample(int[] ids, int[] labels) {
        this(ids, labels, 0, 1);
    }

    /** How many predictions count: every labelled token but the first, which nothing predicts. */
    public int targets() {
        int count = 0;
        for (int i = 1; i < labels.length; i++) {
            count += labels[i] == IGNORED ? 0 : 1;
        }
        return count;
    }
}
