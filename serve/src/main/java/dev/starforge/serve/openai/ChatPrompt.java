package dev.starforge.serve.openai;

import dev.starforge.text.json.Jackson;
import dev.starforge.text.template.ChatTemplate;
import dev.starforge.text.tokenizer.SpecialTokenMarks;
import dev.starforge.text.tokenizer.Tokenizer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Renders a conversation with the model's chat template and encodes it. Only special tokens that the template writes are encoded as such:
 * {@code <|im_end|>} in a message is ordinary text, so that text from a user, a file or a web page cannot end its turn and forge
 * another. Everything that the request passes to the template is marked before rendering ({@link SpecialTokenMarks}).
 *
 * @param trustsContent whether special tokens in messages are encoded as such
 */
record ChatPrompt(Tokenizer tokenizer, ChatTemplate template, boolean trustsContent) {
    int[] encode(ArrayNode messages, List<JsonNode> tools, Map<String, JsonNode> settings) {
        if (trustsContent) {
            return tokenizer.encode(template.render(messages, tools, true, settings), false);
        }
        char mark = SpecialTokenMarks.unused(List.of(messages.toString(), tools.toString(), settings.toString()));
        Map<String, JsonNode> marked = new LinkedHashMap<>();
        settings.forEach((name, value) -> marked.put(name, marked(value, mark)));
        List<JsonNode> markedTools =
                tools.stream().map(tool -> marked(tool, mark)).toList();
        return tokenizer.encodeMarked(template.render(marked(messages, mark), markedTools, true, marked), false, mark);
    }

    /** Marks all strings and keys of a value. */
    private JsonNode marked(JsonNode value, char mark) {
        if (value.isString()) {
            return Jackson.JSON.getNodeFactory().stringNode(tokenizer.marks().mark(value.stringValue(), mark));
        }
        if (value.isArray()) {
            ArrayNode items = Jackson.JSON.createArrayNode();
            value.forEach(item -> items.add(marked(item, mark)));
            return items;
        }
        if (value.isObject()) {
            ObjectNode object = Jackson.object();
            value.propertyStream()
                    .forEach(each ->
                            object.set(tokenizer.marks().mark(each.getKey(), mark), marked(each.getValue(), mark)));
            return object;
        }
        return value;
    }
}
