package dev.starforge.serve.openai;

import dev.starforge.data.Jackson;
import dev.starforge.serve.api.Fields;
import java.util.Optional;
import java.util.stream.Collectors;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** The messages of a conversation, as templates take them: a role, and a content that is a text. */
final class Messages {
    private static final int MOST = 4096;

    private Messages() {}

    /** The messages, if nothing is wrong with them. */
    static Optional<ArrayNode> read(Fields fields) {
        JsonNode messages = fields.node("messages");
        if (!messages.isArray() || messages.isEmpty() || messages.size() > MOST) {
            fields.violate("messages", "a list of 1 to " + MOST + " messages");
            return Optional.empty();
        }
        ArrayNode read = Jackson.JSON.createArrayNode();
        for (int i = 0; i < messages.size(); i++) {
            Optional<String> content = content(messages.get(i).path("content"));
            if (!messages.get(i).path("role").isString() || content.isEmpty()) {
                fields.violate("messages[" + i + "]", "a role, and a content that is a text or a list of texts");
                return Optional.empty();
            }
            ObjectNode message = ((ObjectNode) messages.get(i)).deepCopy();
            read.add(message.put("content", content.get()));
        }
        return Optional.of(read);
    }

    /** A text, a list of parts that are texts, or nothing, as when an assistant has only called a tool. */
    private static Optional<String> content(JsonNode content) {
        if (content.isString()) {
            return Optional.of(content.stringValue());
        }
        if (content.isNull() || content.isMissingNode()) {
            return Optional.of("");
        }
        boolean texts = content.isArray()
                && content.valueStream()
                        .allMatch(part -> part.path("type").asString("").equals("text")
                                && part.path("text").isString());
        return texts
                ? Optional.of(content.valueStream()
                        .map(part -> part.path("text").stringValue())
                        .collect(Collectors.joining()))
                : Optional.empty();
    }
}
