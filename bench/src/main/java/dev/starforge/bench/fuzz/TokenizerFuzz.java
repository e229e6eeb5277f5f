package dev.starforge.bench.fuzz;

import dev.starforge.text.TokenizerException;
import dev.starforge.text.tokenizer.DecodeStream;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.text.tokenizer.Variants;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Seeded mutations of valid tokenizer files: of characters, values and whole parts. Each file must give a tokenizer that encodes and
 * decodes, or a {@link TokenizerException}. {@code main} takes the number of cases and the seed.
 */
final class TokenizerFuzz {
    private static final List<String> NAMES = List.of("starcoder2", "llama3", "qwen2", "llama2");
    private static final String TEXT =
            "def f(x):\n\treturn x+12345 # na\u00EFve \u4F60\u597D \uD83D\uDE42 <s> 'll   \r\n\u2581aaaaaaaaaaaa";
    private static final String[] WORDS = {
        "null",
        "true",
        "[]",
        "{}",
        "\"\"",
        "-1",
        "4294967296",
        "1e99",
        "0.5",
        "\"Sequence\"",
        "\"ByteLevel\"",
        "\"Split\"",
        "\"Digits\"",
        "\"Metaspace\"",
        "\"Replace\"",
        "\"Strip\"",
        "\"NFKC\"",
        "\"Lowercase\"",
        "\"(a+)+$\"",
        "\"\\\\p{L}*\"",
        "\"(?i:\\\\w|)+\"",
        "\"MergedWithNext\"",
        "\"Removed\"",
        "\"\\ud800\"",
        "\"<0x-1>\"",
        "\"BPE\"",
        "2147483647"
    };

    private static final String[] PARTS = {"normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens"};
    private static final JsonMapper JSON = new JsonMapper();

    private final Path file;
    private final List<String> files = new ArrayList<>();
    private int accepted;
    private int refused;
    private long slowest;

    TokenizerFuzz(Path folder) throws IOException {
        file = folder.resolve("fuzzed.json");
        for (String name : NAMES) {
            files.add(Files.readString(Path.of("..", "golden", "tokenizers", name, "tokenizer.json")));
        }
        for (var variant : Variants.ALL.values()) {
            files.add(variant.get());
        }
    }

    void run(int cases, long seed) throws IOException {
        for (int i = 0; i < cases; i++) {
            Random random = new Random(seed + i);
            String damaged = damage(files.get(random.nextInt(files.size())), random);
            Files.write(file, damaged.getBytes(StandardCharsets.UTF_8));
            long start = System.nanoTime();
            try {
                use(Tokenizer.read(file), random);
                accepted++;
            } catch (TokenizerException expected) {
                refused++;
            } catch (RuntimeException | Error failure) {
                throw new AssertionError("case " + (seed + i) + ": " + failure, failure);
            }
            slowest = Math.max(slowest, System.nanoTime() - start);
        }
    }

    private static void use(Tokenizer tokenizer, Random random) {
        int[] ids = tokenizer.encode(TEXT, true);
        tokenizer.decode(ids, true);
        tokenizer.decode(random.ints(20, -1, tokenizer.size() + 1).toArray(), false);
        DecodeStream stream = tokenizer.stream(false);
        for (int id : ids) {
            stream.push(id);
        }
        stream.finish();
    }

    /** Makes one or two changes, to the text of the file or to a value of the JSON tree. */
    private String damage(String file, Random random) {
        return random.nextInt(3) == 0 ? damageText(file, random) : damageTree(file, random);
    }

    private static String damageText(String file, Random random) {
        StringBuilder text = new StringBuilder(file);
        int at = random.nextInt(text.length());
        switch (random.nextInt(4)) {
            case 0 -> text.setCharAt(at, (char) random.nextInt(random.nextBoolean() ? 0x80 : 0x10000));
            case 1 -> text.deleteCharAt(at);
            case 2 -> text.delete(at, Math.min(text.length(), at + 1 + random.nextInt(200)));
            default -> text.insert(at, text.substring(at, Math.min(text.length(), at + random.nextInt(200))));
        }
        return text.toString();
    }

    private String damageTree(String file, Random random) {
        ObjectNode root = (ObjectNode) JSON.readTree(file);
        int changes = 1 + random.nextInt(2);
        for (int i = 0; i < changes; i++) {
            if (random.nextInt(3) == 0) {
                String part = PARTS[random.nextInt(PARTS.length)];
                root.set(
                        part,
                        JSON.readTree(files.get(random.nextInt(files.size()))).path(part));
            } else {
                change(root, random);
            }
        }
        return JSON.writeValueAsString(root);
    }

    /** Replaces a random value of the tree, seldom one of a long list. */
    private static void change(ObjectNode root, Random random) {
        JsonNode parent = root;
        while (true) {
            List<String> keys = parent.isObject() ? List.copyOf(parent.propertyNames()) : List.of();
            int index = random.nextInt(parent.size());
            JsonNode child = parent.isObject() ? parent.get(keys.get(index)) : parent.get(index);
            boolean open = child.isContainer() && !child.isEmpty() && random.nextInt(child.size() > 100 ? 20 : 4) > 0;
            if (open) {
                parent = child;
                continue;
            }
            JsonNode word = JSON.readTree(WORDS[random.nextInt(WORDS.length)]);
            if (parent instanceof ObjectNode object) {
                object.set(keys.get(index), word);
            } else if (parent instanceof ArrayNode array) {
                array.set(index, word);
            }
            return;
        }
    }

    int accepted() {
        return accepted;
    }

    int refused() {
        return refused;
    }

    long slowestMillis() {
        return TimeUnit.NANOSECONDS.toMillis(slowest);
    }

    public static void main(String[] arguments) throws IOException {
        int cases = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 100_000;
        long seed = arguments.length > 1 ? Long.parseLong(arguments[1]) : 1;
        TokenizerFuzz fuzz = new TokenizerFuzz(Files.createTempDirectory("tokenizer-fuzz"));
        fuzz.run(cases, seed);
        System.out.println("tokenizer.json: " + cases + " cases, " + fuzz.accepted + " accepted, " + fuzz.refused
                + " refused, slowest " + fuzz.slowestMillis() + " ms");
    }
}
