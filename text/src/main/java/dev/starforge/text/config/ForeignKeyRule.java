package dev.starforge.text.config;

import java.util.List;

/** What becomes of a setting of other programs that is none of ours, in any section. */
public sealed interface ForeignKeyRule {
    /** Only these values are what we do anyway. */
    record AllowedValues(List<String> values, String reason) implements ForeignKeyRule {}

    /** Not done, and why. */
    record Unsupported(String reason) implements ForeignKeyRule {}

    /** Added to a setting of ours, because both together are one here. */
    record AddedTo(Key<Integer> key, String reason) implements ForeignKeyRule {}
}
