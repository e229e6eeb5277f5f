package dev.starforge.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
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
                 "sequence_length": 5, "metadata": {"pad_token_id": 0, "loss_masks": [[0, 1, 1, 1, 1], [1, 1, 1]]}}"""), 6);
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
                  "commit_hash": "abc", "num_chunks": 1, "example_type": "commit"}]"""), 10);
        assertThat(documents.read(0).ids()).containsExactly(7, 8, 9, 1);
        assertThat(documents.read(0).counted()).containsExactly(false, false, true, true);
    }

    @Test
    void aLossMaskSaysWhatOfATargetCounts() throws IOException {
        TokenDocuments documents = JsonDocuments.enhanced(file("""
                [{"context": [0, 7], "target": [9, 1, 2, 0], "context_mask": [0, 1], "target_mask": [1, 1, 1, 0],
                  "loss_mask": [0, 0, 1, 0, 1, 0]}]"""), 10);
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
                file("{\"text\": \"aa\"}\n\n{\"prompt\": \"xyz\", \"completion\": \" q\"}\n"), tokenizer);
        assertThat(documents.count()).isEqualTo(2);
        TokenDocument text = documents.read(0);
        assertThat(text.ids()[text.ids().length - 1]).isEqualTo(end);
        assertThat(text.counted()).doesNotContain(false);
        TokenDocument pair = documents.read(1);
        assertThat(tokenizer.decode(pair.ids(), true)).isEqualTo("xyz q");
        assertThat(pair.counted()).startsWith(false, false, false).endsWith(true, true, true);
        Path bad = file("{\"text\": \"aa\"}\n{\"txt\": 1}\n");
        assertThatThrownBy(() -> JsonDocuments.lines(bad, tokenizer))
                .hasMessageContaining("line 2: expected the key text");
    }
}
