package dev.starforge.text.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.TokenizerException;
import dev.starforge.text.pretokenizer.PatternBudget;
import dev.starforge.text.pretokenizer.PreTokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;

/** Vocabularies as GGUF files carry them: the ids of the tokenizer.json they were made from; hostile ones refused. */
final class GgufTokenizerTest {
    private static final Path FILE = Path.of("model.gguf");

    @ParameterizedTest
    @ValueSource(strings = {"starcoder2", "llama3", "qwen2"})
    void aByteLevelVocabularyIsTheSameTokenizer(String name) {
        check(Tokenizer.of(gguf(name)), name);
    }

    /**
     * The golden file's scores are all equal, as its converter found none; with the order of the merges as scores,
     * which is what SentencePiece's own files have, the pieces are those of the list of merges.
     */
    @Test
    void aScoredVocabularyIsTheSameTokenizer() {
        GgufVocabulary gguf = gguf("llama2");
        List<String> tokens = Arrays.asList(gguf.tokens());
        float[] scores = new float[tokens.size()];
        int rank = 0;
        for (JsonNode merge : Golden.json("llama2/tokenizer.json").get("model").get("merges")) {
            scores[tokens.indexOf(merge.get(0).stringValue() + merge.get(1).stringValue())] = - ++rank;
        }
        check(Tokenizer.of(with(gguf, scores)), "llama2");
    }

    /** From tokenizer.json: the vocabulary that llama.cpp's converter writes, and the same ids. */
    @ParameterizedTest
    @ValueSource(strings = {"starcoder2", "llama3", "qwen2", "llama2"})
    void aTokenizerBecomesAVocabulary(String name) {
        GgufVocabulary theirs = gguf(name);
        GgufVocabulary ours = GgufVocabularyConverter.read(Golden.file(name), 642, theirs.bos(), theirs.eos());
        assertThat(ours.model()).isEqualTo(theirs.model());
        assertThat(ours.pre()).isEqualTo(theirs.pre());
        assertThat(Arrays.copyOf(ours.tokens(), 640)).isEqualTo(theirs.tokens());
        assertThat(ours.tokens()[641]).isEqualTo("[PAD641]");
        assertThat(ours.types()[641]).isEqualTo(5);
        assertThat(ours.merges()).isEqualTo(theirs.merges());
        assertThat(List.of(ours.bos(), ours.eos(), ours.unknown()))
                .isEqualTo(List.of(theirs.bos(), theirs.eos(), theirs.unknown()));
        assertThat(List.of(ours.addBos(), ours.addEos(), ours.addSpacePrefix()))
                .isEqualTo(List.of(theirs.addBos(), theirs.addEos(), theirs.addSpacePrefix()));
        check(Tokenizer.of(ours), name);
    }

    @ParameterizedTest
    @ValueSource(strings = {"starcoder2", "llama3", "qwen2"})
    void aByteLevelVocabularyBecomesATokenizer(String name) {
        String json = GgufVocabularyConverter.tokenizerJson(gguf(name)).orElseThrow();
        check(TokenizerJson.tokenizer(LocatedJson.parse(FILE, json)), name);
    }

    @Test
    void aVocabularyWithScoresHasNoTokenizerJson() {
        assertThat(GgufVocabularyConverter.tokenizerJson(gguf("llama2"))).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(strings = {"deepseek-llm", "deepseek-coder", "deepseek-v3", "tekken", "gpt-4o", "gpt-2", "falcon"})
    void preTokenizersKeepTheirNames(String pre, @TempDir Path folder) throws IOException {
        String json = GgufVocabularyConverter.tokenizerJson(model(gguf("starcoder2"), "gpt2", pre))
                .orElseThrow();
        Path file = folder.resolve("tokenizer.json");
        Files.writeString(file, json);
        assertThat(GgufVocabularyConverter.read(file, 640, 0, 0).pre()).isEqualTo(pre);
    }

    @Test
    void aTokenizerThatHasNoNameIsRefused(@TempDir Path folder) throws IOException {
        Path file = folder.resolve("tokenizer.json");
        Files.writeString(
                file,
                Golden.text("starcoder2/tokenizer.json")
                        .replace("\"individual_digits\":true", "\"individual_digits\":false")
                        .replace("\"individual_digits\": true", "\"individual_digits\": false"));
        assertThatThrownBy(() -> GgufVocabularyConverter.read(file, 640, 0, 0))
                .isInstanceOf(TokenizerException.class)
                .hasMessageContaining("$.pre_tokenizer: llama.cpp has no name for a pre-tokenizer that cuts at");
        assertThatThrownBy(() -> GgufVocabularyConverter.read(Golden.file("llama3"), 639, 0, 0))
                .isInstanceOf(TokenizerException.class)
                .hasMessageContaining("has ids up to 639, the model has 639 tokens");
    }

    @Test
    void equalScoresMergeFromTheLeft() {
        GgufVocabulary gguf = new GgufVocabulary(
                FILE,
                "llama",
                "default",
                new String[] {"<unk>", "a", "b", "ab", "ba", "\u2581"},
                new float[] {0, 0, 0, -1, -1, 0},
                new int[0],
                new String[0],
                -1,
                -1,
                0,
                false,
                false,
                false);
        assertThat(Tokenizer.of(gguf).encode("abab", true)).containsExactly(3, 3);
        assertThat(Tokenizer.of(gguf).encode("bab a\u00E9", true)).containsExactly(4, 2, 5, 1, 0, 0);
    }

    static Stream<Arguments> known() {
        return Stream.of(
                Arguments.of(
                        "deepseek-llm",
                        "Hi 12 \u4F60\u597D!\n ok",
                        List.of("Hi", " ", "12", " ", "\u4F60\u597D", "!", "\n", " ok")),
                Arguments.of("deepseek-coder", "x = 42\u4F60\n", List.of("x", " = ", "4", "2", "\u4F60", "\n")),
                Arguments.of("deepseek-v3", "a 12345 .foo()", List.of("a", " ", "123", "45", " .", "foo", "()")),
                Arguments.of("default", "a1234 b!!", List.of("a", "123", "4", " b", "!!")),
                Arguments.of("falcon", "a1234 b!!", List.of("a", "123", "4", " b", "!!")),
                Arguments.of("refact", "a 12", List.of("a", " ", "1", "2")),
                Arguments.of("command-r", "a 12", List.of("a", " ", "1", "2")),
                Arguments.of("phi-2", "a 12  b", List.of("a", " 12", " ", " b")),
                Arguments.of("tekken", "fooBar 12", List.of("foo", "Bar", " ", "1", "2")),
                Arguments.of("gpt-4o", "Don't 1234", List.of("Don't", " ", "123", "4")));
    }

    @ParameterizedTest
    @MethodSource("known")
    void namedPreTokenizersSplitAsTheirModels(String pre, String text, List<String> words) {
        GgufVocabulary g = model(gguf("starcoder2"), "gpt2", pre);
        List<String> actual = new ArrayList<>();
        PatternBudget budget = new PatternBudget(FILE);
        budget.begin(text.length());
        new PreTokenizer.Sequence(GgufTokenizer.stages(g))
                .onto((chars, from, to, first) -> actual.add(new String(chars, from, to - from)), budget)
                .preToken(text.toCharArray(), 0, text.length(), true);
        assertThat(actual).isEqualTo(words);
    }

    static Stream<Arguments> hostile() {
        return Stream.of(
                refused("a byte token that is none", "expected a byte as <0x00>", g -> token(g, 5, "<0x-1>")),
                refused("two equal tokens", "already has id", g -> token(g, 300, g.tokens()[301])),
                refused("half a surrogate pair", "surrogate", g -> token(g, 300, "\uD83D")),
                refused("a token of 100 000 characters", "at most", g -> token(g, 300, "x".repeat(100_000))),
                refused("too few scores", "639 scores for 640", g -> with(g, new float[639])),
                refused("a score that is no number", "got NaN", g -> with(g, nan())),
                refused("bos outside", "bos_token_id: id 640", g -> ids(g, 640, 2, 0)),
                refused("bos missing though added", "bos_token_id: id -1", g -> ids(g, -1, 2, 0)),
                refused("eos negative", "eos_token_id: id -7", g -> ids(g, 1, -7, 0)),
                refused("unknown outside", "unknown_token_id", g -> ids(g, 1, 2, 1 << 30)),
                refused("another model", "expected gpt2 or llama, got rwkv", g -> model(g, "rwkv", "")),
                refused(
                        "another pre-tokenizer",
                        "tokenizer.ggml.pre: nope is not known",
                        g -> model(g, "gpt2", "nope")));
    }

    private static Arguments refused(String what, String message, UnaryOperator<GgufVocabulary> change) {
        return Arguments.argumentSet(what, message, change);
    }

    @ParameterizedTest
    @MethodSource("hostile")
    void aWrongVocabularyIsRefused(String message, UnaryOperator<GgufVocabulary> change) {
        GgufVocabulary gguf = change.apply(gguf("llama2"));
        assertThatThrownBy(() -> Tokenizer.of(gguf))
                .isInstanceOf(TokenizerException.class)
                .hasMessageStartingWith("model.gguf: tokenizer.ggml.")
                .hasMessageContaining(message);
    }

    @ParameterizedTest
    @ValueSource(strings = {"ab", "a", "", "a zz", "zz a"})
    void aWrongMergeIsRefused(String merge) {
        GgufVocabulary g = gguf("starcoder2");
        GgufVocabulary wrong = new GgufVocabulary(
                FILE,
                "gpt2",
                "gpt-2",
                g.tokens(),
                g.scores(),
                g.types(),
                new String[] {merge},
                0,
                0,
                -1,
                false,
                false,
                false);
        assertThatThrownBy(() -> Tokenizer.of(wrong))
                .isInstanceOf(TokenizerException.class)
                .hasMessageContaining("tokenizer.ggml.merges[0]");
    }

    private static void check(Tokenizer tokenizer, String name) {
        for (Golden.Case expected : Golden.cases(name)) {
            assertThat(tokenizer.encode(expected.text(), true))
                    .as(expected.text())
                    .isEqualTo(expected.ids());
            assertThat(tokenizer.encode(expected.text(), false)).isEqualTo(expected.idsNoSpecial());
            assertThat(tokenizer.decode(expected.idsNoSpecial(), false)).isEqualTo(expected.decoded());
            assertThat(tokenizer.decode(expected.idsNoSpecial(), true)).isEqualTo(expected.decodedSkipSpecial());
        }
    }

    private static GgufVocabulary gguf(String name) {
        JsonNode json = Golden.json(name + "/gguf.json");
        String model = json.get("model").stringValue();
        String pre = json.get("pre").stringValue();
        float[] scores = new float[json.path("scores").size()];
        for (int i = 0; i < scores.length; i++) {
            scores[i] = json.get("scores").get(i).floatValue();
        }
        return new GgufVocabulary(
                FILE,
                model,
                pre,
                Golden.strings(json.get("tokens")),
                scores,
                Golden.ints(json.get("token_type")),
                Golden.strings(json.path("merges")),
                json.path("bos_token_id").intValue(-1),
                json.path("eos_token_id").intValue(-1),
                json.path("unknown_token_id").intValue(-1),
                json.path("add_bos_token").booleanValue(GgufVocabulary.addsBosByDefault(model, pre)),
                json.path("add_eos_token").booleanValue(false),
                json.path("add_space_prefix").booleanValue(GgufVocabulary.addsSpaceByDefault(model)));
    }

    private static GgufVocabulary with(GgufVocabulary g, float[] scores) {
        return new GgufVocabulary(
                FILE,
                g.model(),
                g.pre(),
                g.tokens(),
                scores,
                g.types(),
                g.merges(),
                g.bos(),
                g.eos(),
                g.unknown(),
                g.addBos(),
                g.addEos(),
                g.addSpacePrefix());
    }

    private static float[] nan() {
        float[] scores = new float[640];
        scores[17] = Float.NaN;
        return scores;
    }

    private static GgufVocabulary token(GgufVocabulary g, int id, String text) {
        g.tokens()[id] = text;
        return g;
    }

    private static GgufVocabulary ids(GgufVocabulary g, int bos, int eos, int unknown) {
        return new GgufVocabulary(
                FILE,
                g.model(),
                g.pre(),
                g.tokens(),
                g.scores(),
                g.types(),
                g.merges(),
                bos,
                eos,
                unknown,
                g.addBos(),
                g.addEos(),
                g.addSpacePrefix());
    }

    private static GgufVocabulary model(GgufVocabulary g, String model, String pre) {
        return new GgufVocabulary(
                FILE,
                model,
                pre,
                g.tokens(),
                g.scores(),
                g.types(),
                g.merges(),
                g.bos(),
                g.eos(),
                g.unknown(),
                g.addBos(),
                g.addEos(),
                g.addSpacePrefix());
    }
}
