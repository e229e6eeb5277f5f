package dev.starforge.serve.api;

import dev.starforge.text.ClosestName;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadConstraints;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * Reads the fields of a JSON request body and collects violations; {@link #check} throws all of them at once. An invalid field reads as
 * its default until then. A null field counts as absent.
 */
public final class RequestFields {
    private static final int MAX_DEPTH = 64;
    private static final JsonMapper JSON = JsonMapper.builder(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder()
                            .maxNestingDepth(MAX_DEPTH)
                            .maxNumberLength(64)
                            .build())
                    .build())
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .build();

    private final JsonNode node;
    private final Set<String> known = new TreeSet<>();
    private final List<FieldViolation> violations = new ArrayList<>();

    private RequestFields(JsonNode node) {
        this.node = node;
    }

    /** Parses a body, which must be one JSON object. */
    public static RequestFields of(byte[] body) {
        JsonNode node;
        try {
            node = JSON.readTree(body);
        } catch (JacksonException e) {
            throw InvalidRequestException.of("body", "a JSON object; the body is not JSON, or is nested too deeply");
        }
        if (!node.isObject()) {
            throw InvalidRequestException.of("body", "a JSON object");
        }
        return new RequestFields(node);
    }

    public boolean has(String name) {
        known.add(name);
        return !node.path(name).isMissingNode() && !node.path(name).isNull();
    }

    /** Returns true if the field has been read. */
    boolean isKnown(String name) {
        return known.contains(name);
    }

    /** The raw field; a missing node if it is absent. */
    public JsonNode node(String name) {
        return has(name) ? node.path(name) : node.path(name + "\0");
    }

    /** The fields of a nested object; empty if it is absent or not an object. */
    public RequestFields section(String name) {
        if (has(name) && !node.path(name).isObject()) {
            violate(name, "an object");
        }
        return new RequestFields(node(name));
    }

    public void violate(String field, String constraint) {
        violations.add(new FieldViolation(field, constraint, node.path(field)));
    }

    public String string(String name, String defaultValue) {
        if (has(name) && !node.path(name).isString()) {
            violate(name, "a string");
        }
        return node.path(name).isString() ? node.path(name).stringValue() : defaultValue;
    }

    /** A required string of 1 to {@code maxLength} characters. */
    public String requireString(String name, int maxLength) {
        String text = string(name, "");
        if (!has(name) || node.path(name).isString() && (text.isEmpty() || text.length() > maxLength)) {
            violate(name, "a string of 1 to " + maxLength + " characters");
        }
        return text;
    }

    public boolean flag(String name, boolean defaultValue) {
        if (has(name) && !node.path(name).isBoolean()) {
            violate(name, "true or false");
        }
        return node.path(name).isBoolean() ? node.path(name).booleanValue() : defaultValue;
    }

    /** A finite number; the caller checks its range. */
    public double number(String name, double defaultValue) {
        if (!has(name)) {
            return defaultValue;
        }
        JsonNode value = node.path(name);
        if (!value.isNumber() || !Double.isFinite(value.doubleValue())) {
            violate(name, "a number");
            return defaultValue;
        }
        return value.doubleValue();
    }

    /** An integer from {@code min} to {@code max}. */
    public long integer(String name, long min, long max, long defaultValue) {
        if (!has(name)) {
            return defaultValue;
        }
        JsonNode value = node.path(name);
        if (!value.isIntegralNumber()
                || !value.canConvertToLong()
                || value.longValue() < min
                || value.longValue() > max) {
            violate(name, "an integer from " + min + " to " + max);
            return defaultValue;
        }
        return value.longValue();
    }

    /** A string, or a list of strings. */
    public List<String> strings(String name) {
        if (!has(name)) {
            return List.of();
        }
        JsonNode value = node.path(name);
        List<JsonNode> items = value.isArray() ? value.valueStream().toList() : List.of(value);
        if (!items.stream().allMatch(JsonNode::isString)) {
            violate(name, "a string or a list of strings");
            return List.of();
        }
        return items.stream().map(JsonNode::stringValue).toList();
    }

    /** Adds a violation for each field that was not read. */
    public void rejectUnknown() {
        node.propertyNames().stream().filter(name -> !known.contains(name)).forEach(name -> {
            String suggestion = ClosestName.name(name, known)
                    .map(near -> "; did you mean " + near + "?")
                    .orElse("");
            String shown = name.length() <= 64 ? name : name.substring(0, 64) + "...";
            violations.add(new FieldViolation(shown, "no such field" + suggestion));
        });
    }

    public void add(List<FieldViolation> more) {
        violations.addAll(more);
    }

    /** Throws if there are violations. */
    public void check() {
        if (!violations.isEmpty()) {
            throw new InvalidRequestException(violations);
        }
    }
}
