package dev.starforge.data;

import java.util.Map;
import java.util.Objects;

/** The sides of a dataset, oldest commits first. */
public enum Split {
    TRAIN("train"),
    VALIDATION("val"),
    TEST("test");

    private final String label;

    Split(String label) {
        this.label = label;
    }

    /** The name in files and reports. */
    public String label() {
        return label;
    }

    /** Its entry in a map that has one for every split. */
    public <T> T in(Map<Split, T> each) {
        return Objects.requireNonNull(each.get(this), label);
    }

    /** The name of its shard. */
    public String shard() {
        return label + ".shard";
    }
}
