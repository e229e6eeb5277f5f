package dev.starforge.text.trainer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.tokenizer.Golden;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Training gives the very file that the Rust library's trainer gives, whatever the order of the texts. */
final class BpeTrainerTest {
    @TempDir
    Path folder;

    @ParameterizedTest
    @EnumSource(BpeTrainer.Splitting.class)
    void equalsTheRustTrainer(BpeTrainer.Splitting splitting) throws IOException {
        JsonNode expected = Golden.json("trained/" + splitting.name().toLowerCase(Locale.ROOT) + ".json");
        List<String> texts = texts();
        for (int round = 0; round < 2; round++) {
            Path file = folder.resolve("tokenizer.json");
            BpeTrainer.train(texts.iterator(), settings(splitting)).write(file);
            JsonNode actual = new JsonMapper().readTree(Files.readString(file));
            assertThat(actual.get("model")).isEqualTo(expected.get("model"));
            assertThat(actual.get("added_tokens")).isEqualTo(expected.get("added_tokens"));
            assertThat(actual.get("normalizer")).isEqualTo(expected.get("normalizer"));
            assertThat(actual.get("pre_tokenizer")).isEqualTo(expected.get("pre_tokenizer"));
            assertThat(folder).isDirectoryNotContaining("glob:**.partial");
            Collections.reverse(texts);
        }
    }

    @Test
    void aTrainedTokenizerEncodes() {
        Tokenizer tokenizer = BpeTrainer.train(texts().iterator(), settings(BpeTrainer.Splitting.STARCODER2))
                .tokenizer();
        String text = "<|endoftext|>{\"ids\": [1, 22]} \uD83D\uDE42";
        int[] ids = tokenizer.encode(text, true);
        assertThat(ids[0]).isZero();
        assertThat(ids).hasSizeLessThan(20);
        assertThat(tokenizer.decode(ids, false)).isEqualTo(text);
    }

    @Test
    void aTextBeginsWithTheTokenThatIsNamed() {
        TrainedTokenizer plain = BpeTrainer.train(texts().iterator(), settings(BpeTrainer.Splitting.STARCODER2));
        Tokenizer tokenizer = plain.beginningWith("<fim_prefix>").tokenizer();
        int[] text = plain.tokenizer().encode("{1}", true);
        assertThat(tokenizer.encode("{1}", true))
                .startsWith(tokenizer.id("<fim_prefix>").orElseThrow())
                .endsWith(text)
                .hasSize(text.length + 1);
        assertThat(tokenizer.encode("{1}", false)).isEqualTo(text);
        int[] whole = tokenizer.encode("{1}{1}{1}", true);
        assertThat(tokenizer.encodeLast("{1}{1}{1}", whole.length)).isEqualTo(whole);
        assertThat(tokenizer.encodeLast("{1}{1}{1}", 3))
                .containsExactly(whole[0], whole[whole.length - 2], whole[whole.length - 1]);
    }

    @Test
    void aVocabularyWithoutRoomIsRefused() {
        assertThatThrownBy(() -> new BpeTrainer.Settings(256, List.of("<s>"), BpeTrainer.Splitting.GPT2, 1))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("at least 257");
    }

    private static BpeTrainer.Settings settings(BpeTrainer.Splitting splitting) {
        return new BpeTrainer.Settings(1500, List.of("<|endoftext|>", "<fim_prefix>"), splitting, 2);
    }

    private static List<String> texts() {
        List<String> texts = new ArrayList<>();
        for (String name : Golden.NAMES) {
            for (String file : List.of("expected.json", "tokenizer.json")) {
                texts.add(Golden.text(name + "/" + file));
            }
        }
        return texts;
    }
}
