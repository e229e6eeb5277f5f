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
 * The fields of a request, read one by one; what is wrong with them is gathered, and {@link #check} says all of it at once.
 * A field that is wrong reads as its default meanwhile. A field that is null is a field that is not there, as clients mean it.
 */
public final class RequestFields {
    private static final int DEEPEST = 64;
    private static final JsonMapper JSON = JsonMapper.builder(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder()
                            .maxNestingDepth(DEEPEST)
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

    /** The fields of a body, which must be one JSON object. */
    public static RequestFields of(byte[] body) {
        JsonNode node;
        try {
            node = JSON.readTree(body);
        } catch (JacksonException failure) {
            throw InvalidRequestException.of("body", "a JSON object; what came is not JSON, or nests too deeply");
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

    /** The field as it stands, missing if it is not there. */
    public JsonNode node(String name) {
        return has(name) ? node.path(name) : node.path(name + "\0");
    }

    /** The fields of a field; none when it is not there or no object. */
    public RequestFields section(String name) {
        if (has(name) && !node.path(name).isObject()) {
            violate(name, "an object");
        }
        return new RequestFields(node(name));
    }

    public void violate(String field, String constraint) {
        violations.add(new FieldViolation(field, constraint, node.path(field)));
    }

    public String string(String name, String otherwise) {
        if (has(name) && !node.path(name).isString()) {
            violate(name, "a string");
        }
        return node.path(name).isString() ? node.path(name).stringValue() : otherwise;
    }

    /** A text that must be there, of so many characters at most. */
    public String requireString(String name, int longest) {
        String text = string(name, "");
        if (!has(name) || node.path(name).isString() && (text.isEmpty() || text.length() > longest)) {
            violate(name, "a string of 1 to " + longest + " characters");
        }
        return text;
    }

    public boolean flag(String name, boolean otherwise) {
        if (has(name) && !node.path(name).isBoolean()) {
            violate(name, "true or false");
        }
        return node.path(name).isBoolean() ? node.path(name).booleanValue() : otherwise;
    }

    /** A number, whose range somebody else knows. */
    public double number(String name, double otherwise) {
        if (!has(name)) {
            return otherwise;
        }
        JsonNode value = node.path(name);
        if (!value.isNumber() || !Double.isFinite(value.doubleValue())) {
            violate(name, "a number");
            return otherwise;
        }
        return value.doubleValue();
    }

    /** A whole number within a range, both ends included. */
    public long integer(String name, long least, long most, long otherwise) {
        if (!has(name)) {
            return otherwise;
        }
        JsonNode value = node.path(name);
        if (!value.isIntegralNumber()
                || !value.canConvertToLong()
                || value.longValue() < least
                || value.longValue() > most) {
            violate(name, "a whole number from " + least + " to " + most);
            return otherwise;
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

    /** Refuses fields that nobody has asked for. */
    public void rejectUnknown() {
        node.propertyNames().stream().filter(name -> !known.contains(name)).forEach(name -> {
            String meant = ClosestName.name(name, known)
                    .map(near -> "; did you mean " + near + "?")
                    .orElse("");
            String shown = name.length() <= 64 ? name : name.substring(0, 64) + "...";
            violations.add(new FieldViolation(shown, "no such field" + meant));
        });
    }

    public void add(List<FieldViolation> more) {
        violations.addAll(more);
    }

    /** Fails with everything that is wrong so far. */
    public void check() {
        if (!violations.isEmpty()) {
            throw new InvalidRequestException(violations);
        }
    }
}
