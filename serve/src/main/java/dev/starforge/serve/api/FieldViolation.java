package dev.starforge.serve.api;

import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.MissingNode;

/**
 * One violated constraint of a request.
 *
 * @param constraint the expected value
 * @param value the actual value if it is a number or boolean; strings are never returned, they may contain a prompt
 */
public record FieldViolation(String field, String constraint, JsonNode value) {
    public FieldViolation(String field, String constraint) {
        this(field, constraint, MissingNode.getInstance());
    }

    public boolean hasValue() {
        return value.isNumber() || value.isBoolean();
    }

    public String message() {
        return field + ": expected " + constraint + (hasValue() ? ", got " + value : "");
    }
}
