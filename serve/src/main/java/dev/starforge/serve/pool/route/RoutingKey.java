package dev.starforge.serve.pool.route;

import dev.starforge.text.json.Jackson;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/**
 * What of a request matters to where it goes.
 *
 * @param model or adapter that it names; empty for none
 * @param text the beginning of what the worker will read, as far as that can be told without its templates
 */
public record RoutingKey(String model, String text) {
    private static final RoutingKey NOTHING = new RoutingKey("", "");

    /** What is no JSON, or not what it should be, is for the worker to refuse. */
    public static RoutingKey of(byte[] body) {
        JsonNode node;
        try {
            node = Jackson.JSON.readTree(body);
        } catch (JacksonException malformed) {
            return NOTHING;
        }
        if (!node.isObject()) {
            return NOTHING;
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
