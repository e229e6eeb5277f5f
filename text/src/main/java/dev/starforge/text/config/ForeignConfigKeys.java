package dev.starforge.text.config;

import java.util.List;

/** What becomes of a setting of other programs that is none of ours, in any section. */
public sealed interface ForeignConfigKeys {
    /** Only these values are what we do anyway. */
    record Only(List<String> values, String reason) implements ForeignConfigKeys {}

    /** Not done, and why. */
    record Never(String reason) implements ForeignConfigKeys {}

    /** Added to a setting of ours, because both together are one here. */
    record Adds(Key<Integer> key, String reason) implements ForeignConfigKeys {}
}
