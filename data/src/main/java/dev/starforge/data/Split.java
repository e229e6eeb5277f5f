package dev.starforge.data;

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

    /** The name of its shard. */
    public String shard() {
        return label + ".shard";
    }
}
