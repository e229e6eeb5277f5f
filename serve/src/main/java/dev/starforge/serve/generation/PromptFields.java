package dev.starforge.serve.generation;

import dev.starforge.serve.api.InvalidRequestException;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.text.tokenizer.SpecialTokenMarks.NoUnusedMarkException;
import dev.starforge.text.tokenizer.Tokenizer;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;

/** Reads prompts: a string, a list of strings, a list of token ids, or a list of such lists. */
public final class PromptFields {
    /** Constraint on text whose special tokens cannot be marked, see {@link NoUnusedMarkException}. */
    public static final String UNMARKABLE = "text without at least one of the noncharacters from U+FDD0 to U+FDEF";

    private PromptFields() {}

    /**
     * Reads and tokenizes the prompts of a field; empty if the field is invalid. As in llama-server and vLLM, {@code add_special} adds the
     * special tokens of the tokenizer, and {@code parse_special} encodes special tokens in the text as such; both are on by default.
     *
     * @param max maximum number of prompts
     */
    public static List<int[]> read(RequestFields fields, String name, Tokenizer tokenizer, int vocabulary, int max) {
        Function<String, int[]> encode = encoder(fields, name, tokenizer);
        JsonNode value = fields.node(name);
        Stream<JsonNode> items = value.isArray() && !isIds(value) ? value.valueStream() : Stream.of(value);
        List<Optional<int[]>> prompts =
                items.limit(max + 1L).map(item -> one(item, encode, vocabulary)).toList();
        boolean valid = !prompts.isEmpty()
                && prompts.size() <= max
                && prompts.stream().allMatch(prompt -> prompt.isPresent() && prompt.get().length > 0);
        if (!valid) {
            fields.violate(
                    name,
                    "a non-empty string, a list of token ids from 0 to " + (vocabulary - 1) + ", or a list of 1 to "
                            + max + " of these");
            return List.of();
        }
        return prompts.stream().flatMap(Optional::stream).toList();
    }

    /**
     * Reads the fields that say how text is encoded.
     *
     * @param name the field with the text, for errors
     */
    public static Function<String, int[]> encoder(RequestFields fields, String name, Tokenizer tokenizer) {
        boolean add = fields.flag("add_special", fields.flag("add_special_tokens", true));
        boolean parse = fields.flag("parse_special", true);
        return text -> parse ? tokenizer.encode(text, add) : encodeAsText(name, tokenizer, text, add);
    }

    /** As {@link Tokenizer#encodeAsText}, for the text of a field. */
    public static int[] encodeAsText(String name, Tokenizer tokenizer, String text, boolean addSpecial) {
        try {
            return tokenizer.encodeAsText(text, addSpecial);
        } catch (NoUnusedMarkException e) {
            throw InvalidRequestException.of(name, UNMARKABLE);
        }
    }

    private static boolean isIds(JsonNode value) {
        return !value.isEmpty() && value.get(0).isNumber();
    }

    private static Optional<int[]> one(JsonNode item, Function<String, int[]> encode, int vocabulary) {
        if (item.isString() && !item.stringValue().isEmpty()) {
            return Optional.of(encode.apply(item.stringValue()));
        }
        return item.isArray() ? ids(item, vocabulary) : Optional.empty();
    }

    /** The token ids of a list; empty if one of them is invalid. */
    public static Optional<int[]> ids(JsonNode list, int vocabulary) {
        boolean valid = list.isArray()
                && list.valueStream()
                        .allMatch(id -> id.isIntegralNumber()
                                && id.canConvertToInt()
                                && id.intValue() >= 0
                                && id.intValue() < vocabulary);
        return valid
                ? Optional.of(list.valueStream().mapToInt(JsonNode::intValue).toArray())
                : Optional.empty();
    }
}
