package dev.starforge.serve.api;

import java.util.List;
import java.util.stream.Collectors;

/** A request that cannot be met as it stands, with everything that is wrong with it. */
public final class InvalidRequest extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final transient List<Violation> violations;
    private final String code;

    public InvalidRequest(List<Violation> violations) {
        this("invalid_request", violations);
    }

    /** @param code a word for programs, {@code context_length_exceeded} */
    public InvalidRequest(String code, List<Violation> violations) {
        super(violations.stream().map(Violation::message).collect(Collectors.joining("; ")), null, false, false);
        this.code = code;
        this.violations = List.copyOf(violations);
    }

    public static InvalidRequest of(String field, String constraint) {
        return new InvalidRequest(List.of(new Violation(field, constraint)));
    }

    public String code() {
        return code;
    }

    public List<Violation> violations() {
        return violations;
    }
}
