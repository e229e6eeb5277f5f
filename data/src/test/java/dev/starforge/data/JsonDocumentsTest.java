package dev.starforge.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.template.ChatTemplate;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.text.trainer.BpeTrainer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Datasets of other programs: what counts, what is padding, and what is refused. */
final class JsonDocumentsTest {
    @TempDir
    Path folder;

    private Path file(String text) throws IOException {
        return Files.writeString(folder.resolve("data.json"), text);
    }

    @Test
    void readsTokenSequences() throws IOException {
        TokenDocuments documents = JsonDocuments.tokenSequences(file("""
            {"token_sequences": [[1, 2, 3, 0, 0], [4, 0, 5]], "vocab_size": 6, "num_sequences": 2, "total_tokens": 8,
             "sequence_length": 5, "metadata": {"pad_token_id": 0, "loss_masks": [[0, 1, 1, 1, 1], [1, 1, 1]]}}\
            """), 6);
        assertThat(documents.count()).isEqualTo(2);
        assertThat(documents.tokens()).isEqualTo(6);
        assertThat(documents.read(0).ids()).containsExactly(1, 2, 3);
        assertThat(documents.read(0).counted()).containsExactly(false, true, true);
        assertThat(documents.read(1).ids()).containsExactly(4, 0, 5);
        assertThat(documents.read(1).counted()).containsExactly(true, true, true);
        assertThat(documents.read(0).id()).isNotEqualTo(documents.read(1).id());
    }

    @Test
    void readsEnhancedExamples() throws IOException {
        TokenDocuments documents = JsonDocuments.enhanced(file("""
            [{"context": [0, 7, 8], "target": [9, 1, 0], "context_mask": [0, 1, 1], "target_mask": [1, 1, 0],
              "commit_hash": "abc", "num_chunks": 1, "example_type": "commit"}]\
            """), 10);
        assertThat(documents.read(0).ids()).containsExactly(7, 8, 9, 1);
        assertThat(documents.read(0).counted()).containsExactly(false, false, true, true);
    }

    @Test
    void aLossMaskSelectsTheTokensThatCount() throws IOException {
        TokenDocuments documents = JsonDocuments.enhanced(file("""
            [{"context": [0, 7], "target": [9, 1, 2, 0], "context_mask": [0, 1], "target_mask": [1, 1, 1, 0],
              "loss_mask": [0, 0, 1, 0, 1, 0]}]\
            """), 10);
        assertThat(documents.read(0).ids()).containsExactly(7, 9, 1, 2);
        assertThat(documents.read(0).counted()).containsExactly(false, true, false, true);
        Path bad = file("[{\"context\": [0], \"target\": [9], \"loss_mask\": [1]}]");
        assertThatThrownBy(() -> JsonDocuments.enhanced(bad, 10))
                .hasMessageContaining("[0].loss_mask: expected 2 numbers, got 1");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{\"token_sequences\": [[6]]}",
                "{\"token_sequences\": [[-1]]}",
                "{\"token_sequences\": [[1.5]]}",
                "{\"token_sequences\": [[99999999999]]}",
                "{\"token_sequences\": [1]}",
                "{\"token_sequences\": [[1]], \"num_sequences\": 2}",
                "{\"token_sequences\": [[1]], \"vocab_size\": 7}",
                "{\"token_sequences\": [[1",
                "[]",
                "",
            })
    void refusesBadSequences(String text) throws IOException {
        Path file = file(text);
        assertThatThrownBy(() -> JsonDocuments.tokenSequences(file, 6))
                .isInstanceOf(DatasetException.class)
                .hasMessageStartingWith(file.toString());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"[{\"context\": [1]}]", "[{\"context\": [1], \"target\": [2], \"target_mask\": [1, 1]}]", "{}"})
    void refusesBadExamples(String text) throws IOException {
        Path file = file(text);
        assertThatThrownBy(() -> JsonDocuments.enhanced(file, 6)).isInstanceOf(DatasetException.class);
    }

    @Test
    void readsLinesAndMasksPrompts() throws IOException {
        Tokenizer tokenizer = BpeTrainer.train(
                        List.of("aa bb aa bb").iterator(),
                        new BpeTrainer.Settings(260, List.of("<|endoftext|>"), BpeTrainer.Splitting.GPT2, 2))
                .tokenizer();
        int end = tokenizer.id("<|endoftext|>").orElseThrow();
        TokenDocuments documents = JsonDocuments.lines(
                file("{\"text\": \"aa\"}\n\n{\"prompt\": \"xyz\", \"completion\": \" q\"}\n"),
                tokenizer,
                JsonDocumentsTest::none);
        assertThat(documents.count()).isEqualTo(2);
        TokenDocument text = documents.read(0);
        assertThat(text.ids()[text.ids().length - 1]).isEqualTo(end);
        assertThat(text.counted()).doesNotContain(false);
        TokenDocument pair = documents.read(1);
        assertThat(tokenizer.decode(pair.ids(), true)).isEqualTo("xyz q");
        assertThat(pair.counted()).startsWith(false, false, false).endsWith(true, true, true);
        Path bad = file("{\"text\": \"aa\"}\n{\"txt\": 1}\n");
        assertThatThrownBy(() -> JsonDocuments.lines(bad, tokenizer, JsonDocumentsTest::none))
                .hasMessageContaining("line 2: expected the key text");
    }

    private static ChatTemplate none() {
        throw new DatasetException(Path.of("model"), "has no chat template");
    }

    /** Of a conversation the answers count, with what ends them, and nothing else. */
    @Test
    void readsConversationsAndMasksAllButAnswers() throws IOException {
        Tokenizer tokenizer = Tokenizer.read(Path.of("..", "golden", "tokenizers", "qwen2", "tokenizer.json"));
        ChatTemplate template = ChatTemplate.parse(
                Path.of("model"),
                "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
                        + "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
                Map.of());
        Path file = file(
                "{\"messages\": [{\"role\": \"user\", \"content\": \"def f\"}, {\"role\": \"assistant\", \"content\":"
                        + " \"return 1\"}, {\"role\": \"user\", \"content\": \"more\"}, {\"role\": \"assistant\","
                        + " \"content\": \"x = 2\"}]}\n");
        TokenDocument document =
                JsonDocuments.lines(file, tokenizer, () -> template).read(0);
        assertThat(tokenizer.decode(document.ids(), false))
                .isEqualTo("<|im_start|>user\ndef f<|im_end|>\n<|im_start|>assistant\nreturn 1<|im_end|>\n"
                        + "<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\nx = 2<|im_end|>\n");
        StringBuilder counted = new StringBuilder();
        for (int i = 0; i < document.ids().length; i++) {
            counted.append(document.counted()[i] ? tokenizer.decode(new int[] {document.ids()[i]}, false) : "");
        }
        assertThat(counted.toString()).isEqualTo("return 1<|im_end|>\nx = 2<|im_end|>\n");
    }

    @Test
    void conversationsThatCannotBeMaskedAreRefused() throws IOException {
        Tokenizer tokenizer = Tokenizer.read(Path.of("..", "golden", "tokenizers", "qwen2", "tokenizer.json"));
        String line = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\":"
                + " \"b\"}]}";
        Path file = file(line);
        assertThatThrownBy(() -> JsonDocuments.lines(file, tokenizer, JsonDocumentsTest::none))
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("has no chat template");
        ChatTemplate counting = ChatTemplate.parse(
                Path.of("model"),
                "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}",
                Map.of());
        assertThatThrownBy(() -> JsonDocuments.lines(file, tokenizer, () -> counting))
                .hasMessageContaining("line 1: messages[1]: the chat template changes earlier messages");
        ChatTemplate refusing =
                ChatTemplate.parse(Path.of("model"), "{{ raise_exception('only one turn') }}", Map.of());
        assertThatThrownBy(() -> JsonDocuments.lines(file, tokenizer, () -> refusing))
                .hasMessageContaining("line 1: messages: ")
                .hasMessageContaining("line 1: refuses the conversation: only one turn");
        Path empty = file("{\"messages\": []}");
        assertThatThrownBy(() -> JsonDocuments.lines(empty, tokenizer, () -> counting))
                .hasMessageContaining("expected a list of objects with role and content");
    }
}
