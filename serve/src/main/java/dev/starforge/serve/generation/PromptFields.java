package dev.starforge.serve.generation;

import dev.starforge.serve.api.RequestFields;
import dev.starforge.text.tokenizer.Tokenizer;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;

/** Texts and token ids as requests bring them: a string, a list of strings, a list of ids, or a list of such lists. */
public final class PromptFields {
    private PromptFields() {}

    /**
     * The texts of a field as tokens, with those that the tokenizer puts around a text; empty when something is wrong.
     *
     * @param most texts that one request may have
     */
    public static List<int[]> read(RequestFields fields, String name, Tokenizer tokenizer, int vocabulary, int most) {
        JsonNode value = fields.node(name);
        Stream<JsonNode> items = value.isArray() && !isIds(value) ? value.valueStream() : Stream.of(value);
        List<Optional<int[]>> prompts = items.limit(most + 1L)
                .map(item -> one(item, tokenizer, vocabulary))
                .toList();
        boolean right = !prompts.isEmpty()
                && prompts.size() <= most
                && prompts.stream().allMatch(prompt -> prompt.isPresent() && prompt.get().length > 0);
        if (!right) {
            fields.violate(
                    name,
                    "a text that is not empty, a list of token ids from 0 to " + (vocabulary - 1)
                            + ", or a list of 1 to " + most + " of these");
            return List.of();
        }
        return prompts.stream().flatMap(Optional::stream).toList();
    }

    private static boolean isIds(JsonNode value) {
        return !value.isEmpty() && value.get(0).isNumber();
    }

    private static Optional<int[]> one(JsonNode item, Tokenizer tokenizer, int vocabulary) {
        if (item.isString() && !item.stringValue().isEmpty()) {
            return Optional.of(tokenizer.encode(item.stringValue(), true));
        }
        return item.isArray() ? ids(item, vocabulary) : Optional.empty();
    }

    /** Token ids of a list, if they are all there are. */
    public static Optional<int[]> ids(JsonNode list, int vocabulary) {
        boolean right = list.isArray()
                && list.valueStream()
                        .allMatch(id -> id.isIntegralNumber()
                                && id.canConvertToInt()
                                && id.intValue() >= 0
                                && id.intValue() < vocabulary);
        return right
                ? Optional.of(list.valueStream().mapToInt(JsonNode::intValue).toArray())
                : Optional.empty();
    }
}
