package dev.starforge.data.config;

import java.util.List;

/** What becomes of a setting of other programs that is none of ours, in any section. */
public sealed interface Foreign {
    /** Only these values are what we do anyway. */
    record Only(List<String> values, String reason) implements Foreign {}

    /** Not done, and why. */
    record Never(String reason) implements Foreign {}

    /** Added to a setting of ours, because both together are one here. */
    record Adds(Key<Integer> key, String reason) implements Foreign {}
}
