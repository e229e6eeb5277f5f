package dev.starforge.serve.api;

import java.util.List;
import java.util.stream.Collectors;

/** An invalid request, with all its violations. */
public final class InvalidRequestException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final transient List<FieldViolation> violations;
    private final String code;

    public InvalidRequestException(List<FieldViolation> violations) {
        this("invalid_request", violations);
    }

    /** @param code machine-readable, such as {@code context_length_exceeded} */
    public InvalidRequestException(String code, List<FieldViolation> violations) {
        super(violations.stream().map(FieldViolation::message).collect(Collectors.joining("; ")), null, false, false);
        this.code = code;
        this.violations = List.copyOf(violations);
    }

    public static InvalidRequestException of(String field, String constraint) {
        return new InvalidRequestException(List.of(new FieldViolation(field, constraint)));
    }

    public String code() {
        return code;
    }

    public List<FieldViolation> violations() {
        return violations;
    }
}
