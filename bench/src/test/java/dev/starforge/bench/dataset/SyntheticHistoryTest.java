package dev.starforge.bench.dataset;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.dataset.Builds;
import dev.starforge.data.dataset.HistoryCheck;
import dev.starforge.data.dataset.report.DatasetReport;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Compares the dataset of a generated history with git; {@code ./dev dataset-speed} does it with 10,000 commits. */
final class SyntheticHistoryTest {
    private static final int COMMITS = 400;

    @TempDir
    Path folder;

    private static Map<String, String> ownSources() throws IOException {
        Path root = Path.of("..", "data", "src", "main", "java");
        Map<String, String> texts = new TreeMap<>();
        try (Stream<Path> files = Files.walk(root)) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                texts.put(root.relativize(file).toString().replace('\\', '/'), Files.readString(file));
            }
        }
        return texts;
    }

    /** The next version: removed and added lines in every file. */
    private static Map<String, String> edited(Map<String, String> texts) {
        Map<String, String> edited = new TreeMap<>();
        texts.forEach((path, text) ->
                edited.put(path, text.replaceAll("(?m)^( *)return (.*)$", "$1var result = $2\n$1return result;")));
        return edited;
    }

    @Test
    void countsAndPatchesAgreeWithGit() throws IOException, InterruptedException {
        Path repository = folder.resolve("history.git");
        Map<String, String> sources = ownSources();
        SyntheticHistory.make(repository, List.of(sources, edited(sources)), COMMITS, 5);
        DatasetReport report = Builds.build(repository, folder.resolve("out"));
        assertThat(report.commits()).isEqualTo(COMMITS);
        HistoryCheck.Result result =
                HistoryCheck.check(repository, folder.resolve("out").resolve("commits.jsonl.gz"), 40, 3);
        assertThat(result.commits()).isEqualTo(COMMITS);
        assertThat(result.files()).isGreaterThan(2 * COMMITS);
        assertThat(result.differences()).isEmpty();
        assertThat(result.patches()).isEqualTo(40);
        assertThat(result.wrong()).isEmpty();
    }

    @Test
    void theSameSeedGivesTheSameHistory() throws IOException, InterruptedException {
        Map<String, String> sources = ownSources();
        for (String name : List.of("one", "two")) {
            SyntheticHistory.make(folder.resolve(name), List.of(sources), 60, 8);
        }
        String head = "refs/heads/main";
        assertThat(folder.resolve("one").resolve(head))
                .hasSameTextualContentAs(folder.resolve("two").resolve(head));
    }

    @Test
    void aWrongCountIsReported() throws IOException, InterruptedException {
        Path repository = folder.resolve("history.git");
        SyntheticHistory.make(repository, List.of(ownSources()), 30, 1);
        Builds.build(repository, folder.resolve("out"));
        Path commits = folder.resolve("out").resolve("commits.jsonl.gz");
        Files.writeString(
                commits.resolveSibling("commits.jsonl"), // of an older version, and read in its place
                Builds.text(commits).replaceFirst("\"additions\":(\\d)", "\"additions\":1$1"));
        assertThat(HistoryCheck.check(repository, commits, 5, 1).differences()).hasSize(1);
    }
}
