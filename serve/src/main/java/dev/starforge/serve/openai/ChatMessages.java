package dev.starforge.serve.openai;

import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.template.ChatTemplate;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Reads chat messages and tools, as chat templates expect them. */
final class ChatMessages {
    private static final int MAX_MESSAGES = 4096;

    private ChatMessages() {}

    /** The messages with string contents; empty if they are invalid. */
    static Optional<ArrayNode> read(RequestFields fields) {
        JsonNode messages = fields.node("messages");
        if (!messages.isArray() || messages.isEmpty() || messages.size() > MAX_MESSAGES) {
            fields.violate("messages", "a list of 1 to " + MAX_MESSAGES + " messages");
            return Optional.empty();
        }
        ArrayNode read = Jackson.JSON.createArrayNode();
        for (int i = 0; i < messages.size(); i++) {
            Optional<String> content = content(messages.get(i).path("content"));
            if (!messages.get(i).path("role").isString() || content.isEmpty()) {
                fields.violate("messages[" + i + "]", "a role, and a content that is a string or a list of text parts");
                return Optional.empty();
            }
            ObjectNode message = ((ObjectNode) messages.get(i)).deepCopy();
            read.add(message.put("content", content.get()));
            message.path("tool_calls").forEach(ChatMessages::openArguments);
        }
        return Optional.of(read);
    }

    /** Parses the arguments of tool calls: a JSON string in the API, an object in templates. */
    private static void openArguments(JsonNode call) {
        if (call.path("function") instanceof ObjectNode function
                && function.path("arguments").isString()) {
            try {
                function.set(
                        "arguments",
                        Jackson.JSON.readTree(function.path("arguments").stringValue()));
            } catch (JacksonException e) {
                // some templates expect a string
            }
        }
    }

    /** The tools of the request; empty if {@code tool_choice} is {@code none}. */
    static List<JsonNode> tools(RequestFields fields, ModelCard card) {
        JsonNode tools = fields.node("tools");
        String choice = fields.node("tool_choice").asString("");
        if (tools.isMissingNode() || tools.isArray() && tools.isEmpty() || choice.equals("none")) {
            return List.of();
        }
        if (card.toolFormat() == ToolFormat.NONE) {
            fields.violate("tools", "none: the model's chat template has no supported tool call format");
        }
        boolean valid = tools.isArray()
                && tools.valueStream()
                        .allMatch(tool -> tool.path("type").asString("").equals("function")
                                && tool.path("function").path("name").isString());
        if (!valid) {
            fields.violate("tools", "a list of {\"type\": \"function\", \"function\": {\"name\": string, ...}}");
        }
        if (fields.has("tool_choice") && !choice.equals("auto")) {
            fields.violate("tool_choice", "auto or none: forced tool calls are not supported");
        }
        return tools.valueStream().toList();
    }

    /** Extra variables of the template, {@code chat_template_kwargs} as in vLLM and llama-server. */
    static Map<String, JsonNode> settings(RequestFields fields, ChatTemplate template) {
        JsonNode settings = fields.node("chat_template_kwargs");
        if (!settings.isMissingNode() && !settings.isObject()) {
            fields.violate("chat_template_kwargs", "an object");
        }
        settings.propertyStream()
                .map(Map.Entry::getKey)
                .filter(template::isReserved)
                .forEach(name -> fields.violate("chat_template_kwargs", "no " + name + ", which the server sets"));
        return settings.propertyStream().collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
    }

    /** The content: a string, a list of text parts, or nothing, as in an assistant message with only tool calls. */
    private static Optional<String> content(JsonNode content) {
        if (content.isString()) {
            return Optional.of(content.stringValue());
        }
        if (content.isNull() || content.isMissingNode()) {
            return Optional.of("");
        }
        boolean textParts = content.isArray()
                && content.valueStream()
                        .allMatch(part -> part.path("type").asString("").equals("text")
                                && part.path("text").isString());
        return textParts
                ? Optional.of(content.valueStream()
                        .map(part -> part.path("text").stringValue())
                        .collect(Collectors.joining()))
                : Optional.empty();
    }
}
