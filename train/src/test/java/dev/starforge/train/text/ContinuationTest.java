package dev.starforge.train.text;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class ContinuationTest {
    private static Tokenizer tokenizer(String name) {
        return Tokenizer.read(Path.of("..", "golden", "tokenizers", name, "tokenizer.json"));
    }

    private static List<String> pieces(Continuation continuation, int[] ids) {
        List<String> pieces = new ArrayList<>();
        for (int id : ids) {
            pieces.add(continuation.push(id));
        }
        pieces.add(continuation.finish());
        return pieces;
    }

    /** The prompt of the last rows ends in bytes that the decoder holds back until it knows what follows. */
    @ParameterizedTest
    @CsvSource(
            quoteCharacter = '`',
            value = {
                "llama2, return, ` x`",
                "llama2, for, ` i in x`",
                "llama2, ``, `x`",
                "llama2, x = 鱼, ` y`",
                "llama2, x = 鱼, `鱼 y`",
                "llama3, return, ` x`",
                "starcoder2, for 鱼, ` 鱼鱼`",
                "qwen2, a, `🙂🙃`",
            })
    void isWhatFollowsThePrompt(String name, String before, String after) {
        Tokenizer tokenizer = tokenizer(name);
        int[] prompt = tokenizer.encode(before, true);
        int[] all = tokenizer.encode(before + after, true);
        assertThat(Arrays.copyOf(all, prompt.length)).isEqualTo(prompt);
        int[] ids = Arrays.copyOfRange(all, prompt.length, all.length);
        Continuation continuation = new Continuation(tokenizer, prompt, List.of());
        assertThat(String.join("", pieces(continuation, ids))).isEqualTo(after);
        assertThat(continuation.text()).isEqualTo(after);
        assertThat(continuation.stopSequence()).isEmpty();
    }

    @Test
    void aPromptCutInsideACharacterIsCompleted() {
        Tokenizer tokenizer = tokenizer("starcoder2");
        int[] fish = tokenizer.encode("鱼", false);
        assertThat(fish.length).isGreaterThan(1);
        Continuation continuation = new Continuation(tokenizer, Arrays.copyOf(fish, fish.length - 1), List.of());
        assertThat(continuation.push(fish[fish.length - 1])).isEqualTo("鱼");
        assertThat(continuation.finish()).isEmpty();
    }

    @Test
    void onlyWholeCharactersAreReturned() {
        Tokenizer tokenizer = tokenizer("starcoder2");
        int[] ids = tokenizer.encode("a鱼🙂b", false);
        List<String> pieces = pieces(new Continuation(tokenizer, new int[] {40}, List.of()), ids);
        assertThat(String.join("", pieces)).isEqualTo("a鱼🙂b");
        assertThat(pieces).contains("").noneMatch(piece -> piece.contains("\ufffd"));
    }

    @Test
    void theLastTokensMayCompleteAStopString() {
        Tokenizer tokenizer = tokenizer("llama2");
        int[] prompt = tokenizer.encode("x", true);
        int[] all = tokenizer.encode("x y鱼", true); // bytes come out at the end only
        Continuation continuation = new Continuation(tokenizer, prompt, List.of("鱼"));
        assertThat(String.join("", pieces(continuation, Arrays.copyOfRange(all, prompt.length, all.length))))
                .isEqualTo(" y");
        assertThat(continuation.stopSequence()).contains("鱼");
        assertThat(continuation.finish()).isEmpty();
    }
}
