package dev.starforge.model.generate;

import java.util.List;
import java.util.stream.Collectors;

/** A request for text that cannot be met as it stands; it names everything that is wrong with it, not only the first. */
public final class GenerationException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final transient List<Violation> violations;

    /**
     * One setting outside its range.
     *
     * @param field the setting as requests spell it, {@code top_p}
     * @param constraint what was expected of it
     */
    public record Violation(String field, String constraint, String value) {
        @Override
        public String toString() {
            return field + ": expected " + constraint + ", got " + value;
        }
    }

    public GenerationException(List<Violation> violations) {
        super(violations.stream().map(Violation::toString).collect(Collectors.joining("; ")));
        this.violations = List.copyOf(violations);
    }

    public List<Violation> violations() {
        return violations;
    }
}
