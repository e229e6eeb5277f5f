package dev.starforge.data.dataset.sample;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.data.DatasetException;
import dev.starforge.data.dataset.sample.SampleFormat.ChangedFile;
import dev.starforge.data.dataset.sample.SampleFormat.FimSplit;
import dev.starforge.data.dataset.sample.SampleFormat.SampleSpan;
import dev.starforge.data.dataset.sample.SampleFormat.SourceFile;
import dev.starforge.text.TokenIdList;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.text.trainer.BpeTrainer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** The very characters of every format, and that they come back from their ids. */
final class SampleFormatTest {
    private static final Path FILE = Path.of("tokenizer.json");
    private static final SourceFile ONE = new SourceFile("a/one.py", "x = 1\n");
    private static final SourceFile TWO = new SourceFile("b/two.py", "y = 'é ☺ <KEY> <|endoftext|>'\n");
    private static final FimSplit GAP = new FimSplit("def f(x):\n", "    return x\n", "\nprint(f(1))\n");
    private static final ChangedFile CHANGE =
            new ChangedFile("a/one.py", "x = 1\n", List.of("@@ -1,1 +1,1 @@\n-x = 1\n+x = 2\n"));

    @TempDir
    Path folder;

    private static SampleFormat format(String... tokens) {
        Tokenizer tokenizer = BpeTrainer.train(
                        List.of("def f(x): return x\nx = 1\n").iterator(),
                        new BpeTrainer.Settings(320, List.of(tokens), BpeTrainer.Splitting.STARCODER2, 2))
                .tokenizer();
        return new SampleFormat(tokenizer, FILE, "auto");
    }

    private static SampleFormat starcoder2() {
        return format(SampleFormat.specialTokens().toArray(String[]::new));
    }

    private static List<SampleSpan> document(SampleFormat format, boolean metadata) {
        List<SampleSpan> pieces = new ArrayList<>(format.begin("R", metadata));
        pieces.addAll(format.file(ONE, metadata, true));
        pieces.addAll(format.file(TWO, metadata, true));
        pieces.addAll(format.end(true));
        return pieces;
    }

    private static List<SampleSpan> fim(SampleFormat format, boolean suffixFirst) {
        List<SampleSpan> pieces = new ArrayList<>(format.fim("a/f.py", GAP, true, suffixFirst, true));
        pieces.addAll(format.end(true));
        return pieces;
    }

    private static List<SampleSpan> commit(SampleFormat format) {
        List<SampleSpan> pieces = new ArrayList<>(format.commit("R", "Two", "Because.", List.of(CHANGE)));
        pieces.addAll(format.end(false));
        return pieces;
    }

    private static void check(SampleFormat format, List<SampleSpan> pieces, String expected) {
        assertThat(SampleFormat.text(pieces)).isEqualTo(expected);
        TokenIdList ids = new TokenIdList();
        pieces.forEach(piece -> format.encode(piece, ids));
        assertThat(format.tokenizer().decode(ids.toArray(), false)).isEqualTo(expected);
    }

    @Test
    void starcoder2Writes() {
        SampleFormat format = starcoder2();
        assertThat(format.family()).isEqualTo(SampleFormat.ModelFamily.STARCODER2);
        check(
                format,
                document(format, true),
                "<repo_name>R<file_sep>a/one.py\n"
                        + "x = 1\n"
                        + "<file_sep>b/two.py\n"
                        + "y = 'é ☺ <KEY> <|endoftext|>'\n"
                        + "<|endoftext|>");
        check(
                format,
                document(format, false),
                "<file_sep>x = 1\n<file_sep>y = 'é ☺ <KEY> <|endoftext|>'\n<|endoftext|>");
        check(
                format,
                fim(format, false),
                "<file_sep><fim_prefix>a/f.py\ndef f(x):\n<fim_suffix>\nprint(f(1))\n<fim_middle>    return x\n"
                        + "<|endoftext|>");
        check(
                format,
                fim(format, true),
                "<file_sep><fim_prefix><fim_suffix>\nprint(f(1))\n<fim_middle>a/f.py\ndef f(x):\n    return x\n"
                        + "<|endoftext|>");
        check(
                format,
                commit(format),
                "<pr>Title: Two\n"
                        + "Because.<pr_status>opened<repo_name>R\n\n"
                        + "<pr_base>\n"
                        + "<pr_file>a/one.py\n"
                        + "<pr_base_code>x = 1\n"
                        + "<pr_diff>\n"
                        + "<pr_file>a/one.py\n"
                        + "<pr_diff_hunk>@@ -1,1 +1,1 @@\n"
                        + "-x = 1\n"
                        + "+x = 2\n"
                        + "<pr>username_0<pr_status>closed\n"
                        + "<pr_is_merged>True\n"
                        + "<|endoftext|>");
        assertThat(commit(format).stream().filter(SampleSpan::counted).map(SampleSpan::text))
                .containsExactly("+x = 2\n");
    }

    @Test
    void specialTokensInTheTextAreNotEncodedAsSuch() {
        SampleFormat format = starcoder2();
        TokenIdList ids = new TokenIdList();
        format.encode(new SampleSpan(false, "a <|endoftext|> <KEY>", true), ids);
        int end = format.tokenizer().id("<|endoftext|>").orElseThrow();
        int key = format.tokenizer().id("<KEY>").orElseThrow();
        assertThat(ids.toArray()).doesNotContain(end).contains(key);
    }

    @Test
    void starcoder1Writes() {
        SampleFormat format = format(
                "<|endoftext|>",
                "<reponame>",
                "<filename>",
                "<fim_prefix>",
                "<fim_suffix>",
                "<fim_middle>",
                "<commit_before>",
                "<commit_msg>",
                "<commit_after>");
        assertThat(format.family()).isEqualTo(SampleFormat.ModelFamily.STARCODER1);
        check(
                format,
                document(format, true),
                "<reponame>R<filename>a/one.py\n"
                        + "x = 1\n"
                        + "<filename>b/two.py\n"
                        + "y = 'é ☺ <KEY> <|endoftext|>'\n"
                        + "<|endoftext|>");
        check(
                format,
                commit(format),
                "<commit_before>x = 1\n<commit_msg>Two\nBecause.<commit_after>x = 2\n<|endoftext|>");
    }

    @Test
    void qwenWrites() {
        SampleFormat format = format(
                "<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>");
        assertThat(format.family()).isEqualTo(SampleFormat.ModelFamily.QWEN);
        check(
                format,
                document(format, true),
                "<|repo_name|>R\n<|file_sep|>a/one.py\nx = 1\n\n<|file_sep|>b/two.py\ny = 'é ☺ <KEY> <|endoftext|>'\n\n"
                        + "<|endoftext|>");
        check(
                format,
                fim(format, false),
                "<|file_sep|>a/f.py\n<|fim_prefix|>def f(x):\n<|fim_suffix|>\nprint(f(1))\n<|fim_middle|>    return x\n"
                        + "<|endoftext|>");
    }

    @Test
    void deepseekWrites() {
        SampleFormat format = format("<｜end▁of▁sentence｜>", "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>");
        assertThat(format.family()).isEqualTo(SampleFormat.ModelFamily.DEEPSEEK);
        check(
                format,
                fim(format, false),
                "<｜fim▁begin｜># a/f.py\ndef f(x):\n<｜fim▁hole｜>\nprint(f(1))\n<｜fim▁end｜>    return x\n"
                        + "<｜end▁of▁sentence｜>");
    }

    /** Over a SentencePiece vocabulary, which puts a space before any text: here only before the first, which decoding removes. */
    @Test
    void codellamaWrites() throws IOException {
        JsonMapper json = new JsonMapper();
        ObjectNode root = (ObjectNode) json.readTree(Path.of("..", "golden", "tokenizers", "llama2", "tokenizer.json"));
        ArrayNode added = (ArrayNode) root.path("added_tokens");
        int id = Tokenizer.read(Path.of("..", "golden", "tokenizers", "llama2", "tokenizer.json"))
                .size();
        for (String token : List.of("▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>")) {
            added.addObject()
                    .put("id", id++)
                    .put("content", token)
                    .put("single_word", false)
                    .put("lstrip", false)
                    .put("rstrip", false)
                    .put("normalized", false)
                    .put("special", true);
        }
        Path file = folder.resolve("tokenizer.json");
        Files.writeString(file, json.writeValueAsString(root));
        SampleFormat format = new SampleFormat(Tokenizer.read(file), file, "auto");
        assertThat(format.family()).isEqualTo(SampleFormat.ModelFamily.CODELLAMA);
        List<SampleSpan> pieces = fim(format, false);
        assertThat(SampleFormat.text(pieces))
                .isEqualTo("▁<PRE> # a/f.py\ndef f(x):\n▁<SUF>\nprint(f(1))\n▁<MID>    return x\n▁<EOT></s>");
        String texts = pieces.stream()
                .filter(piece -> !piece.special())
                .map(SampleSpan::text)
                .collect(Collectors.joining());
        TokenIdList ids = new TokenIdList();
        pieces.forEach(piece -> format.encode(piece, ids));
        assertThat(" " + format.tokenizer().decode(ids.toArray(), true)).isEqualTo(texts);
        TokenIdList prompt = new TokenIdList();
        prompt.add(format.tokenizer().id("▁<PRE>").orElseThrow());
        format.tokenizer().encode("# a/f.py\ndef f(x):\n", false, prompt);
        assertThat(ids.toArray()).startsWith(prompt.toArray());
    }

    @Test
    void withoutFimTokensSamplesArePlain() {
        SampleFormat format = format("<|endoftext|>");
        assertThat(format.family()).isEqualTo(SampleFormat.ModelFamily.PLAIN);
        assertThat(format.supportsFim()).isFalse();
        check(format, document(format, false), "x = 1\n\ny = 'é ☺ <KEY> <|endoftext|>'\n\n<|endoftext|>");
        assertThatThrownBy(() -> new SampleFormat(format.tokenizer(), FILE, "deepseek"))
                .isInstanceOf(DatasetException.class)
                .hasMessage("tokenizer.json: cannot write samples for deepseek: its vocabulary lacks "
                        + "<｜fim▁begin｜> <｜fim▁hole｜> <｜fim▁end｜> <｜end▁of▁sentence｜>");
        assertThatThrownBy(() -> format("<other>"))
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("tokenizer.json: has no token that ends a text");
    }
}
