package dev.starforge.text.config;

import java.util.List;

/** A rule for a config key of another trainer that has no equivalent here. It applies in any section. */
public sealed interface ForeignKeyRule {
    /** Accepted with these values only, because they match the fixed behaviour. */
    record AllowedValues(List<String> values, String reason) implements ForeignKeyRule {}

    /** Rejected, with the reason. */
    record Unsupported(String reason) implements ForeignKeyRule {}

    /** The value is added to that of another key, which covers both. */
    record AddedTo(Key<Integer> key, String reason) implements ForeignKeyRule {}
}
