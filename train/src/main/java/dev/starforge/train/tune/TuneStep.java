package dev.starforge.train.tune;

import java.util.Locale;

/** What a tune does, in this order; each step reads only what those before it wrote. */
public enum TuneStep {
    DATASET,
    TRAIN,
    EVALUATE,
    MERGE,
    QUANTIZE;

    /** As people and the state file name it. */
    public String label() {
        return name().toLowerCase(Locale.ROOT);
    }
}
