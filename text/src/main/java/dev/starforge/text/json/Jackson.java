package dev.starforge.text.json;

import tools.jackson.databind.JsonNode;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/** The JSON mappers: one with a JSON value per line for logs, and one with indentation for files that people read. */
public final class Jackson {
    public static final JsonMapper JSON = new JsonMapper();
    private static final JsonMapper INDENTED =
            JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();

    private Jackson() {}

    public static ObjectNode object() {
        return JSON.createObjectNode();
    }

    /** Formats indented JSON, without a final newline. */
    public static String indented(JsonNode node) {
        return INDENTED.writeValueAsString(node);
    }
}
