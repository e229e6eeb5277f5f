package dev.starforge.data.dataset;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.data.Dataset;
import dev.starforge.data.DatasetException;
import dev.starforge.data.Split;
import dev.starforge.data.TokenDocuments;
import dev.starforge.data.TokenShard;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.report.DatasetReport;
import dev.starforge.data.dataset.report.TokenizerChoice;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.text.trainer.BpeTrainer;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Regression tests: histories that two stages of the pipeline once treated differently. */
final class AwkwardTextsTest {
    private static final List<String> STARCODER1 = List.of(
            "<|endoftext|>",
            "<reponame>",
            "<filename>",
            "<commit_before>",
            "<commit_msg>",
            "<commit_after>",
            "<fim_prefix>",
            "<fim_suffix>",
            "<fim_middle>");

    @TempDir
    Path folder;

    private final Random random = new Random(5);

    private Path repository() {
        return folder.resolve("repo.git");
    }

    private Path out() {
        return folder.resolve("out");
    }

    private String words(int count) {
        StringBuilder words = new StringBuilder();
        for (int i = 0; i < count; i++) {
            for (int letter = 0; letter < 4; letter++) {
                words.append((char) ('a' + random.nextInt(26)));
            }
            words.append(i + 1 < count ? " " : "");
        }
        return words.toString();
    }

    /** Twelve words. */
    private String statement() {
        return "    " + words(1) + " = call(" + words(10).replace(" ", ", ") + ")\n";
    }

    private String statements(int count) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < count; i++) {
            text.append(statement());
        }
        return text.toString();
    }

    /** Twenty-four words. */
    private String note() {
        StringBuilder text = new StringBuilder();
        for (int line = 0; line < 4; line++) {
            text.append(words(6)).append('\n');
        }
        return text.toString();
    }

    private void fill(Fixture git, int commits) throws IOException {
        for (int i = 0; i < commits; i++) {
            git.put("src/fill" + i + ".py", "def " + words(1) + "(a):\n" + statements(6));
            git.commit("Fill " + i);
        }
    }

    private Tokenizer starcoder1(Path file) {
        BpeTrainer.train(
                        List.of(note()).iterator(),
                        new BpeTrainer.Settings(300, STARCODER1, BpeTrainer.Splitting.STARCODER2, 2))
                .write(file);
        return Tokenizer.read(file);
    }

    private DatasetReport build(TokenizerChoice choice, String... settings) {
        DatasetConfig config = Builds.config(repository(), out(), settings);
        return new DatasetBuilder(config, choice, Builds.parsers(out()), Builds.SILENT, System::nanoTime).build();
    }

    private List<JsonNode> diffs(String subject) throws IOException {
        List<JsonNode> diffs = new ArrayList<>();
        for (JsonNode commit : Builds.lines(out().resolve("commits.jsonl.gz"))) {
            if (commit.path("subject").stringValue().equals(subject)) {
                commit.path("diffs").forEach(diffs::add);
            }
        }
        return diffs;
    }

    @Test
    void aCarriageReturnIsNotALineEnd() throws IOException {
        String copied = statements(4);
        String head = "def target(a):\n    s = \"a\rb\rc\rd\re\rf\"\n" + statements(8);
        String tail = statements(5);
        try (Fixture git = new Fixture(repository())) {
            git.put("src/origin.py", "def origin(a):\n" + statements(1) + copied + statements(12));
            git.put("src/target.py", head + tail);
            git.commit("Begin");
            fill(git, 17);
            git.put("src/target.py", head + copied + tail);
            git.commit("Copy");
        }
        assertThat(Builds.build(repository(), out()).dropped())
                .containsKey("leaking_chunk")
                .doesNotContainKey("leaking_document");
    }

    @Test
    void aPathIsPartOfWhatIsTrainedOn() throws IOException {
        String path = "src/main/resources/com/example/part.txt";
        String note = note();
        try (Fixture git = new Fixture(repository())) {
            git.put(path, note);
            git.commit("Begin");
            fill(git, 17);
            git.put("docs/tour.md", "- `" + path + "`:\n\n```\n" + note + "```\n\n" + note());
            git.commit("A tour");
        }
        assertThat(Builds.build(repository(), out(), "samples.metadata", "1").dropped())
                .containsKey("leaking_file")
                .doesNotContainKey("leaking_document");
    }

    /** Where no token stands between files, two of them make windows that neither has. */
    @Test
    void documentsThatLeakAcrossFileBoundariesAreDropped() throws IOException {
        List<String> parts = new ArrayList<>();
        try (Fixture git = new Fixture(repository())) {
            for (int i = 0; i < 6; i++) {
                parts.add(note());
                git.put("notes/part" + i + ".txt", parts.getLast());
            }
            git.commit("Begin");
            fill(git, 17);
            StringBuilder all = new StringBuilder();
            for (String first : parts) {
                for (String second : parts) {
                    all.append(first).append(second).append("---\n");
                }
            }
            git.put("notes/all.txt", all.toString());
            git.commit("All parts in one");
        }
        DatasetReport report = Builds.build(
                repository(),
                out(),
                "samples.family",
                "plain",
                "samples.metadata",
                "0",
                "splits.boilerplate_files",
                "9");
        assertThat(report.dropped().get("leaking_document")).isPositive();
        assertThat(report.leakingDropped())
                .isGreaterThanOrEqualTo(report.dropped().get("leaking_document").intValue());
        List<String> ids = new ArrayList<>();
        try (Dataset dataset = Dataset.open(out())) {
            TokenDocuments train = dataset.documents(Split.TRAIN);
            assertThat(report.splits().get(Split.TRAIN).documents()).isEqualTo(train.count());
            assertThat(report.splits().get(Split.TRAIN).tokens()).isEqualTo(train.tokens());
            for (Split split : Split.values()) {
                TokenDocuments documents = dataset.documents(split);
                for (int d = 0; d < documents.count(); d++) {
                    ids.add(documents.read(d).id());
                }
            }
        }
        JsonNode blobs =
                new JsonMapper().readTree(out().resolve("manifest.json")).path("blobs");
        for (JsonNode named : blobs) {
            named.forEach(id -> assertThat(ids).contains(id.stringValue()));
        }
    }

    @Test
    void aLineMayLookLikeTheHeadOfAHunk() throws IOException {
        String function = "def f(a):\n" + statements(3);
        try (Fixture git = new Fixture(repository())) {
            git.put("src/hunk.py", function);
            fill(git, 9);
            git.put("src/hunk.py", function + "    s = \"@@ -99999999999,1 +1,1 @@\"\n");
            git.commit("Hunk");
        }
        assertThat(Builds.build(repository(), out(), "samples.whole_base", "0").commits())
                .isEqualTo(10);
    }

    @Test
    void noDocumentIsLongerThanTheContextAndNoTwoHaveOneName() throws IOException {
        int context = 512;
        try (Fixture git = new Fixture(repository())) {
            for (int i = 0; i < 8; i++) {
                for (int file = 0; file < 4; file++) {
                    git.put("src/f" + i + "_" + file + ".py", ("def f(a):\n" + statements(3)).replace("\n", "\r\r\n"));
                }
                git.commit("Fill " + i + "\n\n" + words(30));
            }
            git.put("src/same.py", "value = call(value)\n".repeat(1000));
            git.commit("Say it again");
        }
        Path file = folder.resolve("starcoder1.json");
        TokenizerChoice choice = new TokenizerChoice.ExistingTokenizer(file, starcoder1(file));
        assertThat(build(choice, "samples.context_length", "" + context, "splits.train", "99")
                        .family())
                .isEqualTo("starcoder1");
        try (Dataset dataset = Dataset.open(out())) {
            for (Split split : Split.values()) {
                TokenDocuments documents = dataset.documents(split);
                HashSet<String> ids = new HashSet<>();
                for (int d = 0; d < documents.count(); d++) {
                    assertThat(documents.length(d)).isLessThanOrEqualTo(context);
                    assertThat(ids.add(documents.read(d).id())).isTrue();
                }
            }
        }
    }

    @Test
    void aGivenTokenizerIsRequiredForTheNextGeneration() throws IOException {
        Path file = folder.resolve("starcoder1.json");
        TokenizerChoice choice = new TokenizerChoice.ExistingTokenizer(file, starcoder1(file));
        try (Fixture git = new Fixture(repository())) {
            fill(git, 10);
            build(choice);
            fill(git, 12);
        }
        assertThatThrownBy(() -> build(new TokenizerChoice.TokenizerToTrain(600)))
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("was built with a tokenizer that was given; give it again, as --tokenizer");
        assertThat(build(choice).generation()).isEqualTo(1);
    }

    @Test
    void aDifferentTrainedTokenizerIsRefused() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            fill(git, 10);
            build(new TokenizerChoice.TokenizerToTrain(600));
            fill(git, 12);
        }
        assertThatThrownBy(() -> build(new TokenizerChoice.TokenizerToTrain(700)))
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("was built with --tokenizer train:600, not train:700");
        assertThat(build(new TokenizerChoice.TokenizerToTrain(600)).generation())
                .isEqualTo(1);
    }

    @Test
    void redactedKeysAreCountedToo() throws IOException {
        String begin = "-----BEGIN RSA PRIVATE KEY-----\n";
        String end = "-----END RSA PRIVATE KEY-----\n";
        try (Fixture git = new Fixture(repository())) {
            fill(git, 10);
            git.put("key.txt", "ours:\n" + begin + Histories.KEY_LINE + "\n" + end + "theirs\n");
            git.commit("Bring a key");
            git.put("key.txt", "ours:\ntheirs\n");
            git.commit("Take it away");
        }
        Builds.build(repository(), out());
        JsonNode diff = diffs("Take it away").getFirst();
        assertThat(diff.path("patch").stringValue()).contains("-<KEY>\n").doesNotContain(Histories.KEY_LINE);
        assertThat(diff.path("redactions").intValue()).isPositive();
    }

    @Test
    void timeGoesOnAfter2038() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            fill(git, 10);
            git.at(4_102_444_800L);
            git.put("src/late.py", "def late(a):\n" + statements(5));
            git.commit("Late");
        }
        Builds.build(repository(), out());
        JsonNode late = Builds.lines(out().resolve("commits.jsonl.gz")).getLast();
        assertThat(late.path("time").stringValue()).isEqualTo("2100-01-01T00:00:00Z");
        try (TokenShard test = TokenShard.open(out().resolve(Split.TEST.shard()))) {
            assertThat(test.count()).isPositive();
            assertThat(test.origin(0).time()).isEqualTo(4_102_444_800L);
        }
    }

    @Test
    void filesOutsideTheSnapshotAreCounted() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            fill(git, 8);
            String text = "def " + words(1) + "(a):\n" + statements(20);
            git.put("src/one.py", text);
            git.put("src/other.py", "def " + words(1) + "(a):\n" + statements(20));
            git.commit("Two that differ");
            git.put("src/other.py", text + statement());
            git.commit("Now alike");
            fill(git, 12);
        }
        assertThat(Builds.build(repository(), out()).dropped()).containsEntry("similar_file", 1L);
    }

    @Test
    void chunksTooLargeForADocumentAreCounted() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            fill(git, 4);
            git.put("src/long.py", "def " + words(1) + "(a):\n    return \"" + words(100) + "\"\n" + statements(20));
            git.commit("A long line");
            fill(git, 12);
        }
        DatasetReport report = Builds.build(repository(), out(), "samples.context_length", "256");
        // the line, as part of its file and of its commit
        assertThat(report.dropped()).containsEntry("too_long_sample", 2L);
        assertThat(Builds.build(repository(), folder.resolve("roomy")).dropped())
                .doesNotContainKey("too_long_sample");
    }

    @Test
    void ofTwoSimilarFilesTheOneWithTheSameNameIsTheRename() throws IOException {
        String kept = statements(6);
        String old = kept + statements(4);
        try (Fixture git = new Fixture(repository())) {
            git.put("a/one.py", old);
            git.put("b/other.py", old);
            git.commit("Two");
            git.remove("a/one.py");
            git.remove("b/other.py");
            git.put("c/other.py", kept + statements(4));
            git.commit("Move");
            fill(git, 6);
        }
        Builds.build(repository(), out());
        assertThat(diffs("Move"))
                .filteredOn(diff -> diff.path("type").stringValue().equals("R"))
                .singleElement()
                .satisfies(
                        diff -> assertThat(diff.path("old_path").stringValue()).isEqualTo("b/other.py"));
    }
}
