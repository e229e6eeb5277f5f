package dev.starforge.train.corpus;

import dev.starforge.tensor.ShapeException;

/**
 * One training example.
 *
 * @param ids token ids
 * @param labels the target of each position, or {@link #IGNORED}; labels are shifted here, not by the caller
 * @param sample a number unique in the run, which keys the example's noise
 * @param weight loss weight of each prediction
 */
public record TrainingExample(int[] ids, int[] labels, int sample, float weight) {
    /** Label that does not count in the loss, as in HF. */
    public static final int IGNORED = -100;

    public TrainingExample {
        if (ids.length != labels.length) {
            throw new ShapeException("example: " + ids.length + " tokens but " + labels.length + " labels");
        }
    }

    public TrainingExample(int[] ids, int[] labels) {
        this(ids, labels, 0, 1);
    }

    /** Number of predictions that count: all labelled tokens but the first. */
    public int targets() {
        int count = 0;
        for (int i = 1; i < labels.length; i++) {
            count += labels[i] == IGNORED ? 0 : 1;
        }
        return count;
    }
}
