package dev.starforge.data;

import java.util.Map;
import java.util.Objects;

/** The splits of a dataset, oldest commits first. */
public enum Split {
    TRAIN("train"),
    VALIDATION("val"),
    TEST("test");

    private final String label;

    Split(String label) {
        this.label = label;
    }

    /** Returns the name in files and reports. */
    public String label() {
        return label;
    }

    /** Returns the entry of this split in a map with all splits. */
    public <T> T in(Map<Split, T> each) {
        return Objects.requireNonNull(each.get(this), label);
    }

    /** Returns the file name of its shard. */
    public String shard() {
        return label + ".shard";
    }
}
