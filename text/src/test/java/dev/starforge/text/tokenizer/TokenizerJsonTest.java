package dev.starforge.text.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.TokenizerException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A file that is wrong is named with the place; one that is hostile costs neither time nor memory. */
final class TokenizerJsonTest {
    private static final String VALID = """
        {"version":"1.0","added_tokens":[{"id":3,"content":"<s>","special":true}],"normalizer":null,
        "pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":{"type":"Fuse"},
        "model":{"type":"BPE","dropout":null,"unk_token":"a","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}
        """;

    @TempDir
    Path folder;

    @Test
    void theUnchangedFileWorks() throws IOException {
        Tokenizer tokenizer = read(VALID);
        assertThat(tokenizer.encode("<s>abba x", true)).containsExactly(3, 2, 1, 0, 0);
        assertThat(tokenizer.size()).isEqualTo(4);
        assertThat(tokenizer.id("zz")).isEmpty();
        assertThat(tokenizer.isSpecial(3)).isTrue();
        assertThatThrownBy(() -> tokenizer.token(4))
                .isInstanceOf(TokenizerException.class)
                .hasMessageContaining("no token has id 4");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "{\"version\" | [{\"version\" | is not JSON",
                "\"1.0\" | \"2.0\" | $.version: expected version 1.0",
                "\"BPE\" | \"Unigram\" | $.model.type: expected BPE",
                "\"dropout\":null | \"dropout\":0.1 | $.model.dropout: expected no dropout",
                "\"dropout\":null | \"dropout\":\"x\" | $.model.dropout: expected no dropout",
                "\"dropout\":null | \"end_of_word_suffix\":\"</w>\" | $.model.end_of_word_suffix: expected none",
                "\"Whitespace\" | \"Bert\" | $.pre_tokenizer.type: expected a pre-tokenizer",
                "\"Fuse\" | \"CTC\" | $.decoder.type: expected a decoder",
                "\"normalizer\":null | \"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"}]} |"
                        + " $.normalizer.normalizers[0].type: expected a normalizer",
                "\"post_processor\":null | \"post_processor\":{\"type\":\"Roberta\"} | $.post_processor.type: expected"
                        + " a post-processor",
                "\"ab\":2 | \"ab\":-2 | $.model.vocab.ab: expected a whole number",
                "\"ab\":2 | \"ab\":1 | $.model.vocab.ab: id 1 already belongs to b",
                "\"ab\":2 | \"b\":2 | is not JSON",
                "\"ab\":2 | \"ab\":2000000000 | $.model.vocab.ab: id 2000000000 is outside",
                "\"ab\":2 | \"ab\":99999999999 | $.model.vocab.ab: expected a whole number below 2^31",
                "\"ab\":2 | \"ab\":2.5 | $.model.vocab.ab: expected a whole number",
                "[\"a b\"] | [\"a c\"] | $.model.merges[0]: c is not in the vocabulary",
                "[\"a b\"] | [\"b a\"] | $.model.merges[0]: ba is not in the vocabulary",
                "[\"a b\"] | [\"a b c\"] | $.model.merges[0]: expected two tokens",
                "[\"a b\"] | [[\"a\"]] | $.model.merges[0]: expected two tokens",
                "[\"a b\"] | [7] | $.model.merges[0]: expected a list",
                "\"id\":3 | \"id\":2 | $.added_tokens[0]: id 2",
                "\"id\":3 | \"id\":2000000 | $.added_tokens[0].id: expected an id below",
                "\"<s>\" | \"ab\" | $.added_tokens[0].id: expected 2, the id of ab",
                "\"<s>\" | \"\" | $.added_tokens[0].content: expected a text",
                "\"<s>\" | \"\\ud83d\" | $.added_tokens[0].content: expected a string without half a surrogate pair",
                "{\"type\":\"Whitespace\"} |"
                        + " {\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Removed\"} |"
                        + " $.pre_tokenizer.pattern.Regex: pattern (",
                "{\"type\":\"Whitespace\"} |"
                        + " {\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?<n>a)\"},\"behavior\":\"Removed\"} | is not"
                        + " supported",
                "{\"type\":\"Whitespace\"} | {\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}"
                        + " | $.pre_tokenizer.behavior: expected a behavior",
            })
    void aWrongFileIsRefusedWithItsPlace(String old, String changed, String message) {
        String json = VALID.replace(old, changed);
        assertThat(json).isNotEqualTo(VALID);
        assertThatThrownBy(() -> read(json))
                .isInstanceOf(TokenizerException.class)
                .hasMessageStartingWith(folder.resolve("tokenizer.json").toString())
                .hasMessageContaining(message);
    }

    @ParameterizedTest
    @CsvSource({"(a|a)*c", "(a|aa)+$", "(x|y|a)*?b", "a*a*a*b"})
    void aPatternThatBacktracksWithoutEndIsStopped(String pattern) throws IOException {
        Tokenizer tokenizer = read(VALID.replace(
                "{\"type\":\"Whitespace\"}",
                "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" + pattern + "\"},\"behavior\":\"Isolated\"}"));
        Assertions.assertTimeoutPreemptively(
                Duration.ofSeconds(20),
                () -> assertThatThrownBy(() -> tokenizer.encode("a".repeat(20_000) + "!", false))
                        .isInstanceOf(TokenizerException.class)
                        .hasMessageContaining("pattern of this file"));
        assertThat(tokenizer.encode("ab", false)).isNotEmpty();
    }

    @Test
    void replacementsThatDoubleTheTextAreStopped() throws IOException {
        String twice = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}";
        Tokenizer tokenizer = read(VALID.replace(
                "\"normalizer\":null",
                "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" + (twice + ",").repeat(40) + twice + "]}"));
        assertThatThrownBy(() -> tokenizer.encode("a", false))
                .isInstanceOf(TokenizerException.class)
                .hasMessageContaining("too long");
    }

    @Test
    void halfASurrogatePairIsAReplacementCharacter() {
        Tokenizer tokenizer = Golden.tokenizer("starcoder2");
        assertThat(tokenizer.encode("a\uD83Db", false)).isEqualTo(tokenizer.encode("a\uFFFDb", false));
        assertThat(tokenizer.encode("\uDE42", false)).isEqualTo(tokenizer.encode("\uFFFD", false));
    }

    @Test
    void manyThreadsShareATokenizer() {
        Tokenizer tokenizer = Golden.tokenizer("llama3");
        var texts = Sources.texts();
        var alone = texts.stream().map(text -> tokenizer.encode(text, true)).toList();
        var together =
                texts.parallelStream().map(text -> tokenizer.encode(text, true)).toList();
        for (int i = 0; i < alone.size(); i++) {
            assertThat(together.get(i)).isEqualTo(alone.get(i));
        }
    }

    private Tokenizer read(String json) throws IOException {
        Path file = folder.resolve("tokenizer.json");
        Files.writeString(file, json);
        return Tokenizer.read(file);
    }
}
