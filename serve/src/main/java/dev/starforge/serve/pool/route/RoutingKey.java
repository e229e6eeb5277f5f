package dev.starforge.serve.pool.route;

import dev.starforge.text.json.Jackson;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/**
 * The parts of a request that determine its worker.
 *
 * @param model model or adapter name; empty if absent
 * @param text the prompt, before the chat template is applied
 */
public record RoutingKey(String model, String text) {
    private static final RoutingKey EMPTY = new RoutingKey("", "");

    /** Malformed requests give an empty key: the worker rejects them. */
    public static RoutingKey of(byte[] body) {
        JsonNode node;
        try {
            node = Jackson.JSON.readTree(body);
        } catch (JacksonException e) {
            return EMPTY;
        }
        if (!node.isObject()) {
            return EMPTY;
        }
        StringBuilder text = new StringBuilder();
        for (String field : new String[] {"prompt", "messages", "input_extra", "input_prefix", "input", "content"}) {
            append(node.path(field), text);
        }
        JsonNode model = node.path("model");
        return new RoutingKey(model.isString() ? model.stringValue() : "", text.toString());
    }

    private static void append(JsonNode node, StringBuilder text) {
        if (node.isString()) {
            text.append(node.stringValue()).append('\n');
        } else if (node.isNumber()) {
            text.append(node.asString()).append(' ');
        } else {
            node.forEach(item -> append(item, text));
        }
    }
}
