package dev.starforge.train.tune;

import java.util.Locale;

/** The steps of {@link Tune} in order. Each step reads only the output of earlier steps. */
public enum TuneStep {
    DATASET,
    TRAIN,
    EVALUATE,
    MERGE,
    QUANTIZE;

    /** The name in messages and in the state file. */
    public String label() {
        return name().toLowerCase(Locale.ROOT);
    }
}
