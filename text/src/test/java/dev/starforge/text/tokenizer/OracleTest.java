package dev.starforge.text.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import ai.djl.huggingface.tokenizers.HuggingFaceTokenizer;
import dev.starforge.text.trainer.BpeTrainer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The same ids and texts as the Rust library itself, which the DJL jar carries. */
final class OracleTest {
    @TempDir
    Path folder;

    static HuggingFaceTokenizer oracle(Path file) throws IOException {
        return HuggingFaceTokenizer.newInstance(file, Map.of("truncation", "false", "padding", "false"));
    }

    static Stream<String> names() {
        return Golden.NAMES.stream();
    }

    @ParameterizedTest
    @MethodSource("names")
    void randomTexts(String name) throws IOException {
        RandomText random = name.equals("qwen2") ? RandomText.old(20260101) : RandomText.any(20260101);
        compare(Golden.file(name), texts(random, 2000));
    }

    @ParameterizedTest
    @MethodSource("names")
    void sourceFiles(String name) throws IOException {
        compare(Golden.file(name), Sources.texts());
    }

    @ParameterizedTest
    @MethodSource("names")
    void randomIds(String name) throws IOException {
        Tokenizer tokenizer = Golden.tokenizer(name);
        Random random = new Random(7);
        try (HuggingFaceTokenizer oracle = oracle(Golden.file(name))) {
            for (int i = 0; i < 1000; i++) {
                int[] ids = random.ints(random.nextInt(20), 0, tokenizer.size()).toArray();
                long[] wide = IntStream.of(ids).asLongStream().toArray();
                assertThat(tokenizer.decode(ids, false))
                        .as(Arrays.toString(ids))
                        .isEqualTo(oracle.decode(wide, false));
                assertThat(tokenizer.decode(ids, true)).as(Arrays.toString(ids)).isEqualTo(oracle.decode(wide, true));
            }
        }
    }

    static Stream<String> variants() {
        return Variants.ALL.keySet().stream();
    }

    @ParameterizedTest
    @MethodSource("variants")
    void components(String variant) throws IOException {
        Path file = folder.resolve("tokenizer.json");
        Files.writeString(file, Variants.ALL.get(variant).get());
        compare(file, texts(RandomText.old(variant.hashCode()), 500));
    }

    @ParameterizedTest
    @ValueSource(strings = {"GPT2", "STARCODER2", "LLAMA3", "QWEN2"})
    void trained(String splitting) throws IOException {
        Path file = folder.resolve("tokenizer.json");
        BpeTrainer.train(
                        Sources.texts().iterator(),
                        new BpeTrainer.Settings(
                                1000, List.of("<|a|>", "<b>"), BpeTrainer.Splitting.valueOf(splitting), 2))
                .write(file);
        compare(file, texts(RandomText.old(5), 300));
        compare(file, Sources.texts().subList(0, 3));
    }

    private static List<String> texts(RandomText random, int count) {
        return Stream.generate(random::next).limit(count).toList();
    }

    private static void compare(Path file, List<String> texts) throws IOException {
        Tokenizer tokenizer = Tokenizer.read(file);
        List<String> different = new ArrayList<>();
        try (HuggingFaceTokenizer oracle = oracle(file)) {
            for (String text : texts) {
                for (boolean special : new boolean[] {true, false}) {
                    long[] expected = oracle.encode(text, special, false).getIds();
                    int[] ids = tokenizer.encode(text, special);
                    if (!Arrays.equals(IntStream.of(ids).asLongStream().toArray(), expected)) {
                        different.add(escaped(text) + "\n  got      " + Arrays.toString(ids) + "\n  expected "
                                + Arrays.toString(expected));
                    } else if (!tokenizer.decode(ids, special).equals(oracle.decode(expected, special))) {
                        different.add(escaped(text) + " decodes differently");
                    }
                }
            }
        }
        assertThat(different).isEmpty();
    }

    private static String escaped(String text) {
        StringBuilder out = new StringBuilder();
        text.chars().forEach(c -> out.append(c >= ' ' && c < 0x7F ? String.valueOf((char) c) : "\\u%04X".formatted(c)));
        return out.toString();
    }
}
