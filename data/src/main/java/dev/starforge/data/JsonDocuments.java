package dev.starforge.data;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.template.ChatTemplate;
import dev.starforge.text.template.ChatTemplateException;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.OptionalInt;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Stream;
import tools.jackson.core.JacksonException;
import tools.jackson.core.JsonParser;
import tools.jackson.core.JsonToken;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ArrayNode;

/**
 * Reads datasets of other programs: two JSON schemas with token ids, and JSON Lines with text. The files are untrusted;
 * ids are checked against the vocabulary and never clamped. All documents are kept in memory as token ids.
 */
public final class JsonDocuments {
    private static final JsonMapper MAPPER = JsonMapper.builder()
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .build();

    /** Names of end-of-text tokens; the first that the vocabulary has is used. */
    private static final List<String> ENDS =
            List.of("<|endoftext|>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>", "<|end_of_text|>", "</s>");

    private final Path file;
    private final int vocabularySize;

    private JsonDocuments(Path file, int vocabularySize) {
        this.file = file;
        this.vocabularySize = vocabularySize;
    }

    /**
     * Reads {@code token_sequences.json}:
     * {@code {token_sequences, vocab_size, num_sequences, total_tokens, sequence_length, metadata}}. All ids count in
     * the loss except those that {@code metadata.loss_masks} excludes. Trailing {@code metadata.pad_token_id} are
     * removed.
     */
    public static TokenDocuments tokenSequences(Path file, int vocabularySize) {
        return new JsonDocuments(file, vocabularySize).tokenSequences();
    }

    /**
     * Reads {@code training_data_enhanced_*.json}: an array of
     * {@code {context, target, context_mask, target_mask, commit_hash, num_chunks, example_type}}. A zero in a mask
     * marks padding, which is removed. The target counts in the loss and the context does not, unless there is a
     * {@code loss_mask} with a number for each id of the context and then of the target, zero for ids that do not
     * count.
     */
    public static TokenDocuments enhanced(Path file, int vocabularySize) {
        return new JsonDocuments(file, vocabularySize).enhanced();
    }

    /**
     * Reads lines of JSON: {@code {"text"}}; {@code {"prompt", "completion"}}, where only the completion counts in the
     * loss; or {@code {"messages"}}, a conversation rendered with the model's chat template, where the assistant's
     * messages and their end tokens count. A text or completion ends with the vocabulary's end-of-text token, if it has
     * one; the template ends a conversation.
     *
     * @param template called for the first conversation
     */
    public static TokenDocuments lines(Path file, Tokenizer tokenizer, Supplier<ChatTemplate> template) {
        return new JsonDocuments(file, tokenizer.size()).lines(new Encoding(tokenizer, endOfText(tokenizer), template));
    }

    /** The tokenizer, end-of-text id and chat template for JSON Lines. */
    private record Encoding(Tokenizer tokenizer, OptionalInt end, Supplier<ChatTemplate> template) {}

    private TokenDocuments tokenSequences() {
        List<int[]> sequences = new ArrayList<>();
        List<int[]> masks = new ArrayList<>();
        int padding = -1;
        long declared = -1;
        try (JsonParser json = MAPPER.createParser(file)) {
            expect(json, json.nextToken(), JsonToken.START_OBJECT, "an object");
            while (json.nextToken() == JsonToken.PROPERTY_NAME) {
                String key = json.currentName();
                JsonToken value = json.nextToken();
                switch (key) {
                    case "token_sequences" -> {
                        expect(json, value, JsonToken.START_ARRAY, "a list of sequences");
                        while (json.nextToken() != JsonToken.END_ARRAY) {
                            sequences.add(ids(json, "token_sequences[" + sequences.size() + "]", vocabularySize));
                        }
                    }
                    case "num_sequences" -> declared = json.getLongValue();
                    case "vocab_size" -> {
                        int size = json.getIntValue();
                        if (size > vocabularySize) {
                            throw wrong(json, "vocab_size is " + size + ", but the tokenizer has " + vocabularySize);
                        }
                    }
                    case "metadata" -> {
                        JsonNode metadata = json.readValueAsTree();
                        padding = metadata.path("pad_token_id").asInt(-1);
                        for (JsonNode mask : metadata.path("loss_masks")) {
                            masks.add(numbers(mask));
                        }
                    }
                    default -> json.skipChildren();
                }
            }
        } catch (JacksonException failure) {
            throw new DatasetException(file, "is not readable JSON: " + failure.getOriginalMessage(), failure);
        }
        if (declared >= 0 && declared != sequences.size()) {
            throw new DatasetException(
                    file, "num_sequences is " + declared + ", but there are " + sequences.size() + " sequences");
        }
        if (!masks.isEmpty() && masks.size() != sequences.size()) {
            throw new DatasetException(
                    file, "metadata.loss_masks: expected " + sequences.size() + " masks, got " + masks.size());
        }
        List<TokenDocument> documents = new ArrayList<>();
        for (int i = 0; i < sequences.size(); i++) {
            int[] ids = sequences.get(i);
            int length = ids.length;
            while (length > 0 && ids[length - 1] == padding) {
                length--;
            }
            boolean[] counted = new boolean[length];
            Arrays.fill(counted, true);
            if (!masks.isEmpty()) {
                int[] mask = masks.get(i);
                if (mask.length < length) {
                    throw new DatasetException(
                            file,
                            "metadata.loss_masks[" + i + "]: expected " + ids.length + " numbers, got " + mask.length);
                }
                for (int j = 0; j < length; j++) {
                    counted[j] = mask[j] != 0;
                }
            }
            documents.add(new TokenDocument("sequence-" + i, Arrays.copyOf(ids, length), counted));
        }
        return DocumentList.of(documents);
    }

    private TokenDocuments enhanced() {
        List<TokenDocument> documents = new ArrayList<>();
        try (JsonParser json = MAPPER.createParser(file)) {
            expect(json, json.nextToken(), JsonToken.START_ARRAY, "a list of examples");
            while (json.nextToken() != JsonToken.END_ARRAY) {
                expect(json, json.currentToken(), JsonToken.START_OBJECT, "an object");
                documents.add(example(json, documents.size()));
            }
        } catch (JacksonException failure) {
            throw new DatasetException(file, "is not readable JSON: " + failure.getOriginalMessage(), failure);
        }
        return DocumentList.of(documents);
    }

    private TokenDocument example(JsonParser json, int index) {
        int[] context = null;
        int[] target = null;
        int[] contextMask = new int[0];
        int[] targetMask = new int[0];
        int[] lossMask = new int[0];
        while (json.nextToken() == JsonToken.PROPERTY_NAME) {
            String key = json.currentName();
            String place = "[" + index + "]." + key;
            json.nextToken();
            switch (key) {
                case "context" -> context = ids(json, place, vocabularySize);
                case "target" -> target = ids(json, place, vocabularySize);
                case "context_mask" -> contextMask = ids(json, place, 2);
                case "target_mask" -> targetMask = ids(json, place, 2);
                case "loss_mask" -> lossMask = ids(json, place, 2);
                default -> json.skipChildren();
            }
        }
        if (context == null || target == null) {
            throw wrong(json, "[" + index + "]: expected context and target");
        }
        int[] left = unpadded(json, context, contextMask, "[" + index + "].context_mask");
        int[] right = unpadded(json, target, targetMask, "[" + index + "].target_mask");
        int[] ids = Arrays.copyOf(left, left.length + right.length);
        System.arraycopy(right, 0, ids, left.length, right.length);
        boolean[] counted = new boolean[ids.length];
        Arrays.fill(counted, left.length, ids.length, true);
        if (lossMask.length > 0) {
            if (lossMask.length != context.length + target.length) {
                throw wrong(
                        json,
                        "[" + index + "].loss_mask: expected " + (context.length + target.length) + " numbers, got "
                                + lossMask.length);
            }
            // the loss mask loses the same padding as the ids
            int[] leftLoss = Arrays.copyOf(lossMask, context.length);
            int[] rightLoss = Arrays.copyOfRange(lossMask, context.length, lossMask.length);
            leftLoss = unpadded(json, leftLoss, contextMask, "[" + index + "].context_mask");
            rightLoss = unpadded(json, rightLoss, targetMask, "[" + index + "].target_mask");
            for (int i = 0; i < counted.length; i++) {
                counted[i] = (i < left.length ? leftLoss[i] : rightLoss[i - left.length]) != 0;
            }
        }
        return new TokenDocument("example-" + index, ids, counted);
    }

    /** Returns the ids that a mask keeps; without a mask, all ids. */
    private int[] unpadded(JsonParser json, int[] ids, int[] mask, String place) {
        if (mask.length == 0) {
            return ids;
        }
        if (mask.length != ids.length) {
            throw wrong(json, place + ": expected " + ids.length + " numbers, got " + mask.length);
        }
        TokenIdList kept = new TokenIdList();
        for (int i = 0; i < ids.length; i++) {
            if (mask[i] != 0) {
                kept.add(ids[i]);
            }
        }
        return kept.toArray();
    }

    private int[] ids(JsonParser json, String place, int bound) {
        if (json.currentToken() != JsonToken.START_ARRAY) {
            throw wrong(json, place + ": expected a list of numbers");
        }
        TokenIdList ids = new TokenIdList();
        while (json.nextToken() != JsonToken.END_ARRAY) {
            if (json.currentToken() != JsonToken.VALUE_NUMBER_INT
                    || json.getNumberType() != JsonParser.NumberType.INT
                    || json.getIntValue() < 0
                    || json.getIntValue() >= bound) {
                throw wrong(
                        json,
                        place + "[" + ids.size() + "]: expected a whole number below " + bound + ", got "
                                + json.getString());
            }
            ids.add(json.getIntValue());
        }
        return ids.toArray();
    }

    private static int[] numbers(JsonNode list) {
        int[] numbers = new int[list.size()];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = list.get(i).asInt(0);
        }
        return numbers;
    }

    private void expect(JsonParser json, JsonToken actual, JsonToken expected, String what) {
        if (actual != expected) {
            throw wrong(json, "expected " + what + ", got " + actual);
        }
    }

    private DatasetException wrong(JsonParser json, String message) {
        return new DatasetException(
                file, "offset " + json.currentTokenLocation().getByteOffset() + ": " + message);
    }

    private TokenDocuments lines(Encoding encoding) {
        List<TokenDocument> documents = new ArrayList<>();
        try (BufferedReader reader = Files.newBufferedReader(file, StandardCharsets.UTF_8)) {
            int number = 0;
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                number++;
                if (!line.isBlank()) {
                    documents.add(line(line, number, encoding));
                }
            }
        } catch (IOException failure) {
            throw new DatasetException(file, "cannot be read: " + failure, failure);
        }
        return DocumentList.of(documents);
    }

    /** Returns the end-of-text id of a vocabulary. */
    public static OptionalInt endOfText(Tokenizer tokenizer) {
        return ENDS.stream()
                .map(tokenizer::id)
                .filter(OptionalInt::isPresent)
                .findFirst()
                .orElse(OptionalInt.empty());
    }

    private TokenDocument line(String line, int number, Encoding encoding) {
        Tokenizer tokenizer = encoding.tokenizer();
        String place = "line " + number;
        JsonNode node;
        try {
            node = MAPPER.readTree(line);
        } catch (JacksonException failure) {
            throw new DatasetException(file, place + ": is not JSON: " + failure.getOriginalMessage(), failure);
        }
        Set<String> keys = new HashSet<>();
        node.properties().forEach(property -> keys.add(property.getKey()));
        TokenIdList ids = new TokenIdList();
        int counted = 0;
        if (keys.contains("messages")) {
            return conversation(
                    node.path("messages"),
                    number,
                    tokenizer,
                    encoding.template().get());
        }
        if (keys.contains("text")) {
            tokenizer.encode(text(node, "text", place), true, ids);
        } else if (keys.containsAll(Set.of("prompt", "completion"))) {
            tokenizer.encode(text(node, "prompt", place), true, ids);
            counted = ids.size();
            tokenizer.encode(text(node, "completion", place), false, ids);
        } else {
            throw new DatasetException(
                    file,
                    place + ": expected the key text, or prompt and completion, or messages, got "
                            + Stream.of(keys.toArray())
                                    .map(Object::toString)
                                    .sorted()
                                    .toList());
        }
        encoding.end().ifPresent(ids::add);
        boolean[] mask = new boolean[ids.size()];
        Arrays.fill(mask, counted, mask.length, true);
        return new TokenDocument("line-" + number, ids.toArray(), mask);
    }

    /**
     * Tokenizes a whole conversation. An answer begins and ends at the lengths of the common prefixes of the whole ids
     * with the ids of the conversation up to that point.
     */
    private TokenDocument conversation(JsonNode messages, int number, Tokenizer tokenizer, ChatTemplate template) {
        String place = "line " + number + ": messages";
        if (!messages.isArray() || messages.isEmpty()) {
            throw new DatasetException(file, place + ": expected a list of objects with role and content");
        }
        String whole = rendered(template, messages, false, place);
        int[] ids = tokenizer.encode(whole, false);
        boolean[] counted = new boolean[ids.length];
        ArrayNode soFar = MAPPER.createArrayNode();
        for (int i = 0; i < messages.size(); i++) {
            JsonNode message = messages.get(i);
            text(message, "role", place + "[" + i + "]");
            boolean answer = message.path("role").stringValue().equals("assistant");
            String asked = answer && !soFar.isEmpty() ? rendered(template, soFar, true, place) : "";
            soFar.add(message);
            if (!answer) {
                continue;
            }
            String answered = rendered(template, soFar, false, place);
            if (!whole.startsWith(answered) || !answered.startsWith(asked)) {
                throw new DatasetException(
                        file,
                        place + "[" + i
                                + "]: the chat template changes earlier messages when an answer is added, so the tokens of the "
                                + "answer cannot be determined");
            }
            int from = common(ids, tokenizer.encode(asked, false));
            int to = whole.length() == answered.length() ? ids.length : common(ids, tokenizer.encode(answered, false));
            Arrays.fill(counted, Math.min(from, to), to, true);
        }
        return new TokenDocument("line-" + number, ids, counted);
    }

    private static int common(int[] ids, int[] others) {
        int mismatch = Arrays.mismatch(ids, others);
        return mismatch < 0 ? ids.length : mismatch;
    }

    private String rendered(ChatTemplate template, JsonNode messages, boolean asks, String place) {
        try {
            return template.render(messages, asks);
        } catch (ChatTemplateException wrong) {
            throw new DatasetException(file, place + ": " + wrong.getMessage(), wrong);
        }
    }

    private String text(JsonNode node, String key, String place) {
        if (!node.path(key).isString()) {
            throw new DatasetException(file, place + ": " + key + ": expected a string, got " + node.path(key));
        }
        return node.path(key).stringValue();
    }
}
