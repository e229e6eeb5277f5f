package dev.starforge.text.fim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.TokenizerException;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Tokenizers of the families, made from golden ones by renaming tokens or adding some. */
final class FillInMiddleTest {
    private static final Path TOKENIZERS = Path.of("..", "golden", "tokenizers");

    @TempDir
    Path folder;

    private Tokenizer rewritten(String name, String... replacements) throws IOException {
        String text = Files.readString(TOKENIZERS.resolve(name).resolve("tokenizer.json"));
        for (int i = 0; i < replacements.length; i += 2) {
            assertThat(text).contains(replacements[i]);
            text = text.replace(replacements[i], replacements[i + 1]);
        }
        return Tokenizer.read(Files.writeString(folder.resolve("tokenizer.json"), text));
    }

    private static List<Integer> list(int[] ids) {
        return IntStream.of(ids).boxed().toList();
    }

    @ParameterizedTest
    @CsvSource({
        "<fim_prefix>, <fim_suffix>, <fim_middle>",
        "<|fim_prefix|>, <|fim_suffix|>, <|fim_middle|>",
        "<｜fim▁begin｜>, <｜fim▁hole｜>, <｜fim▁end｜>",
    })
    void prefixSuffixMiddle(String prefix, String suffix, String middle) throws IOException {
        Tokenizer tokenizer =
                rewritten("starcoder2", "<fim_prefix>", prefix, "<fim_suffix>", suffix, "<fim_middle>", middle);
        FillInMiddle fim = FillInMiddle.of(tokenizer, folder);
        List<Integer> wanted = new ArrayList<>(List.of(1));
        wanted.addAll(list(tokenizer.encode("x = [", false)));
        wanted.add(3);
        wanted.addAll(list(tokenizer.encode("]\n", false)));
        wanted.add(2);
        assertThat(list(fim.prompt("x = [", "]\n"))).isEqualTo(wanted);
        assertThat(fim.ends()).contains(1, 2, 3);
    }

    @Test
    void noSpaceIsPrependedToTheSuffix() throws IOException {
        StringBuilder added = new StringBuilder("\"added_tokens\": [");
        List<String> names = List.of("▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>");
        for (int i = 0; i < names.size(); i++) {
            added.append("{\"id\": ")
                    .append(640 + i)
                    .append(", \"content\": \"")
                    .append(names.get(i));
            added.append("\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, ");
            added.append("\"special\": true},");
        }
        Tokenizer tokenizer = rewritten("llama2", "\"added_tokens\": [", added.toString());
        FillInMiddle fim = FillInMiddle.of(tokenizer, folder);
        List<Integer> ids = list(fim.prompt("return x", "return y"));
        int suffix = ids.indexOf(642);
        List<Integer> before = new ArrayList<>(List.of(1, 640));
        before.addAll(list(tokenizer.encode("return x", false)));
        assertThat(ids.subList(0, suffix)).isEqualTo(before);
        assertThat(ids.getLast()).isEqualTo(641);
        int[] between = ids.subList(suffix + 1, ids.size() - 1).stream()
                .mapToInt(Integer::intValue)
                .toArray();
        assertThat(tokenizer.token(between[0])).doesNotStartWith("▁");
        StringBuilder spelled = new StringBuilder();
        for (int id : between) {
            spelled.append(tokenizer.token(id));
        }
        assertThat(spelled.toString()).isEqualTo("return▁y");
        assertThat(fim.ends()).containsExactly(640, 641, 642, 643);
    }

    @Test
    void aTokenizerWithoutThemIsRefused() {
        Tokenizer tokenizer = Tokenizer.read(TOKENIZERS.resolve("qwen2/tokenizer.json"));
        assertThatThrownBy(() -> FillInMiddle.of(tokenizer, Path.of("here")))
                .isInstanceOf(TokenizerException.class)
                .hasMessageStartingWith("here: its tokenizer has no fill-in-the-middle tokens; looked for <fim_prefix>")
                .hasMessageContaining("<|fim_prefix|>")
                .hasMessageContaining("<｜fim▁begin｜>")
                .hasMessageContaining("▁<PRE>");
    }

    @Test
    void aWindowPutsSnippetsBeforeTheFile() throws IOException {
        Tokenizer tokenizer = rewritten("starcoder2");
        FillInMiddle fim = FillInMiddle.of(tokenizer, folder);
        List<FillInMiddle.Snippet> snippets = List.of(
                new FillInMiddle.Snippet("a.py", "A = 1\n"), new FillInMiddle.Snippet("b.py", "B <file_sep>\n"));
        FillInMiddle.Window window = fim.window("x = [", "1, ", "]\n", snippets, 1000, 1000);
        assertThat(window.truncated()).isFalse();
        assertThat(tokenizer.decode(window.prompt(), false))
                .isEqualTo("<file_sep>a.py\nA = 1\n<file_sep>b.py\nB <file_sep>\n<file_sep>file\n"
                        + "<fim_prefix>x = [1, <fim_suffix>]\n<fim_middle>");
        int separator = tokenizer.id("<file_sep>").orElseThrow();
        assertThat(IntStream.of(window.prompt()).filter(id -> id == separator)).hasSize(3);
        assertThat(fim.window("x = [", "", "]\n", List.of(), 1000, 1000).prompt())
                .isEqualTo(fim.prompt("x = [", "]\n"));
    }

    @ParameterizedTest
    @CsvSource({"1000, 200", "40, 1000", "40, 60", "8, 12"})
    void aWindowKeepsWhatIsNearest(int near, int room) throws IOException {
        Tokenizer tokenizer = rewritten("starcoder2");
        FillInMiddle fim = FillInMiddle.of(tokenizer, folder);
        String far = "w ".repeat(500);
        FillInMiddle.Window window =
                fim.window(far + "z", "", "a" + far, List.of(new FillInMiddle.Snippet("f", far + "q")), near, room);
        assertThat(window.truncated()).isTrue();
        assertThat(window.prompt().length).isLessThanOrEqualTo(room);
        assertThat(tokenizer.decode(window.prompt(), false)).contains("z<fim_suffix>a");
    }
}
