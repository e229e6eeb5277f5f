package dev.starforge.text.json;

import tools.jackson.databind.JsonNode;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/** The JSON mappers, made once: one JSON value a line for logs, indented for files that people read. */
public final class Jackson {
    public static final JsonMapper JSON = new JsonMapper();
    private static final JsonMapper INDENTED =
            JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();

    private Jackson() {}

    public static ObjectNode object() {
        return JSON.createObjectNode();
    }

    /** The text of an indented file, without a last newline. */
    public static String indented(JsonNode node) {
        return INDENTED.writeValueAsString(node);
    }
}
