package dev.starforge.text.tokenizer;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.StreamSupport;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The golden tokenizers and what the Rust library made of 57 texts. */
public final class Golden {
    public static final List<String> NAMES = List.of("starcoder2", "llama3", "qwen2", "llama2");

    private static final JsonMapper JSON = new JsonMapper();

    private Golden() {}

    record Case(String text, int[] ids, int[] idsNoSpecial, String decoded, String decodedSkipSpecial) {
        @Override
        public String toString() {
            return text;
        }
    }

    static Path path(String resource) {
        return Path.of("..", "golden", "tokenizers", resource);
    }

    static Path file(String name) {
        return path(name + "/tokenizer.json");
    }

    static Tokenizer tokenizer(String name) {
        return Tokenizer.read(file(name));
    }

    public static JsonNode json(String resource) {
        return JSON.readTree(text(resource));
    }

    public static String text(String resource) {
        try {
            return Files.readString(path(resource));
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    static List<Case> cases(String name) {
        List<Case> cases = new ArrayList<>();
        for (JsonNode node : json(name + "/expected.json").get("cases")) {
            cases.add(new Case(
                    node.get("text").stringValue(),
                    ints(node.get("ids")),
                    ints(node.get("ids_no_special")),
                    node.get("decoded").stringValue(),
                    node.get("decoded_skip_special").stringValue()));
        }
        return cases;
    }

    static int[] ints(JsonNode list) {
        return StreamSupport.stream(list.spliterator(), false)
                .mapToInt(JsonNode::intValue)
                .toArray();
    }

    static String[] strings(JsonNode list) {
        return StreamSupport.stream(list.spliterator(), false)
                .map(JsonNode::stringValue)
                .toArray(String[]::new);
    }
}
