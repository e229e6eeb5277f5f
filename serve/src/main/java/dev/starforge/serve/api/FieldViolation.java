package dev.starforge.serve.api;

import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.MissingNode;

/**
 * One thing wrong with a request.
 *
 * @param constraint what was expected
 * @param value what came, where that is a number or a flag; texts are never said back, a prompt may be among them
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
