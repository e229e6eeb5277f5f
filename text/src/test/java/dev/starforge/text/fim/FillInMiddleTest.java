package dev.starforge.text.fim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.TokenizerException;
import dev.starforge.text.fim.FillInMiddle.Cursor;
import dev.starforge.text.tokenizer.CompletionDecodeStream;
import dev.starforge.text.tokenizer.HealedPrompt;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;
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
        assertThat(list(fim.prompt("x = [", "]\n", false).ids())).isEqualTo(wanted);
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
        List<Integer> ids = list(fim.prompt("return x", "return y", false).ids());
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
        FillInMiddle.Window window = fim.window(new Cursor("x = [", "1, ", "]\n"), snippets, 1000, 1000, false);
        assertThat(window.truncated()).isFalse();
        assertThat(tokenizer.decode(window.prompt().ids(), false))
                .isEqualTo("<file_sep>a.py\nA = 1\n<file_sep>b.py\nB <file_sep>\n<file_sep>file\n"
                        + "<fim_prefix>x = [1, <fim_suffix>]\n<fim_middle>");
        int separator = tokenizer.id("<file_sep>").orElseThrow();
        assertThat(IntStream.of(window.prompt().ids()).filter(id -> id == separator))
                .hasSize(3);
        assertThat(fim.window(new Cursor("x = [", "", "]\n"), List.of(), 1000, 1000, false)
                        .prompt()
                        .ids())
                .isEqualTo(fim.prompt("x = [", "]\n", false).ids());
    }

    @ParameterizedTest
    @CsvSource({"1000, 200", "40, 1000", "40, 60", "8, 12"})
    void aWindowKeepsWhatIsNearest(int near, int room) throws IOException {
        Tokenizer tokenizer = rewritten("starcoder2");
        FillInMiddle fim = FillInMiddle.of(tokenizer, folder);
        String far = "w ".repeat(500);
        FillInMiddle.Window window = fim.window(
                new Cursor(far + "z", "", "a" + far),
                List.of(new FillInMiddle.Snippet("f", far + "q")),
                near,
                room,
                false);
        assertThat(window.truncated()).isTrue();
        assertThat(window.prompt().ids().length).isLessThanOrEqualTo(room);
        assertThat(tokenizer.decode(window.prompt().ids(), false)).contains("z<fim_suffix>a");
    }

    private static final String FILE = """
        import os

        def size(path, größe=10):
            found = os.stat(path)
            if not found:
                return 0
            for part in found.parts:
                total += part.st_size
            return total
        """;

    /** For every cursor: the original middle is allowed, only what follows the cursor is returned, and the middle begins at a line. */
    @ParameterizedTest
    @CsvSource({"starcoder2", "llama3"})
    void theOriginalMiddleIsAllowedAtEveryCursor(String name) throws IOException {
        Tokenizer tokenizer = name.equals("starcoder2")
                ? rewritten(name)
                : rewritten(
                        name,
                        "<|start_header_id|>",
                        "<|fim_prefix|>",
                        "<|end_header_id|>",
                        "<|fim_suffix|>",
                        "<|eot_id|>",
                        "<|fim_middle|>");
        FillInMiddle fim = FillInMiddle.of(tokenizer, folder);
        int healed = 0;
        for (int at = 0; at < FILE.length(); at++) {
            String before = FILE.substring(0, at);
            int lineEnd = FILE.indexOf('\n', at);
            HealedPrompt prompt = fim.prompt(before, FILE.substring(lineEnd), true);
            String asked = tokenizer.decode(prompt.ids(), false);
            String given = asked.substring(asked.lastIndexOf(">") + 1);
            int begin = before.length() - prompt.characters() - given.length();
            assertThat(begin == 0 || FILE.charAt(begin - 1) == '\n')
                    .as("%s in %s", begin, before)
                    .isTrue();
            assertThat(asked).contains(FILE.substring(0, begin)).contains(FILE.substring(lineEnd));
            TokenIdList middle = new TokenIdList();
            tokenizer.encodeFragment(FILE.substring(begin, lineEnd), middle);
            TokenIdList kept = new TokenIdList();
            tokenizer.encodeFragment(given, kept);
            int[] ids = middle.toArray();
            if (!given.isEmpty() && !Arrays.equals(Arrays.copyOf(ids, kept.size()), kept.toArray())) {
                continue; // a word of more tokens than are taken back
            }
            healed++;
            CompletionDecodeStream stream = new CompletionDecodeStream(tokenizer, prompt);
            StringBuilder told = new StringBuilder();
            for (int i = given.isEmpty() ? 0 : kept.size(); i < ids.length; i++) {
                Optional<BitSet> allowed =
                        prompt.allowed(Arrays.copyOfRange(ids, given.isEmpty() ? 0 : kept.size(), i));
                assertThat(allowed.isEmpty() || allowed.get().get(ids[i]))
                        .as("%s after %s", tokenizer.token(ids[i]), before)
                        .isTrue();
                told.append(stream.push(ids[i]));
            }
            assertThat(told.append(stream.finish())).hasToString(FILE.substring(at, lineEnd));
        }
        assertThat(healed).isGreaterThan(FILE.length() / 2);
    }

    @Test
    void theMiddleBeginsFourLinesBeforeTheCursor() throws IOException {
        Tokenizer tokenizer = rewritten("starcoder2");
        FillInMiddle fim = FillInMiddle.of(tokenizer, folder);
        HealedPrompt prompt = fim.window(new Cursor("a\nb\nc\nd\ne\n", "f = g", "\nz\n"), List.of(), 1000, 1000, true)
                .prompt();
        assertThat(tokenizer.decode(prompt.ids(), false))
                .startsWith("<fim_prefix>a\n<fim_suffix>\nz\n<fim_middle>b\nc\nd\ne\n");
        assertThat(prompt.characters()).isPositive();
        assertThat(prompt.allowed()).isPresent();
    }

    /** A line longer than the prompt may be keeps its end. */
    @Test
    void aLongLineIsTruncated() throws IOException {
        Tokenizer tokenizer = rewritten("starcoder2");
        FillInMiddle.Window window = FillInMiddle.of(tokenizer, folder)
                .window(new Cursor("w ".repeat(5000) + "retu", "", "\nz\n"), List.of(), 100, 1000, true);
        assertThat(window.truncated()).isTrue();
        assertThat(window.prompt().ids().length).isLessThanOrEqualTo(100 + 3);
        assertThat(window.prompt().allowed()).isPresent();
    }
}
