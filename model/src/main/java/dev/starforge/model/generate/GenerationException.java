package dev.starforge.model.generate;

import java.util.List;
import java.util.stream.Collectors;

/** Invalid generation parameters. The message lists every violation. */
public final class GenerationException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final transient List<Violation> violations;

    /**
     * A parameter outside its range.
     *
     * @param field the parameter's name in requests, such as {@code top_p}
     * @param constraint the expected range
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
