package dev.starforge.data.dataset;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.data.DatasetException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class RepositoryFactsTest {
    @TempDir
    Path folder;

    @Test
    void countsCommitsAndLinesOfCode() throws IOException {
        Path repository = folder.resolve("repo.git");
        try (Fixture git = new Fixture(repository)) {
            git.put("src/A.java", "class A {\n}\n").put("README.md", "# A\n");
            git.commit("one");
            git.put("src/A.java", "class A {\n    int x;\n}\n").put("b.py", "x = 1\ny = 2"); // no line end
            git.put("image.py", new byte[] {1, 0, 2});
            git.commit("two");
            RepositoryFacts facts = RepositoryFacts.of(repository, false);
            assertThat(facts.commits()).isEqualTo(2);
            assertThat(facts.head()).isEqualTo(git.head().name());
            assertThat(facts.files()).isEqualTo(2);
            assertThat(facts.lines()).isEqualTo(Map.of("java", 3L, "python", 2L));
            assertThat(facts.allLines()).isEqualTo(5);
            // A.java and README.md, then A.java before and after, b.py and image.py
            assertThat(facts.work()).isEqualTo(new DatasetEstimate(2, 12 + 4 + 12 + 23 + 11 + 3));
        }
    }

    @Test
    void tooLittleDiskSpaceIsAnError() {
        DatasetEstimate estimate = new DatasetEstimate(10_000, 4_000_000_000L);
        assertThat(estimate.bytes() >> 20).isEqualTo(839);
        estimate.requireSpace(folder, 500L << 20);
        assertThatThrownBy(() -> estimate.requireSpace(folder, 100L << 20))
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("needs about 839 MiB, and 100 MiB are free");
    }

    @Test
    void aFolderThatIsNoRepositoryIsNamed() {
        assertThatThrownBy(() -> RepositoryFacts.of(folder, false))
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("is not a git repository");
    }

    /** The repository around a folder is not the one that was asked for, however the folder is spelled. */
    @Test
    void aParentRepositoryIsNotUsed() throws IOException {
        try (Fixture git = new Fixture(folder.resolve(".git"))) {
            git.put("A.java", "class A {}\n");
            git.commit("one");
        }
        Files.createDirectories(folder.resolve("inner/deeper"));
        assertThat(RepositoryFacts.of(folder, false).commits()).isEqualTo(1);
        assertThatThrownBy(() -> RepositoryFacts.of(folder.resolve("inner/../inner/deeper/.."), false))
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("is not a git repository");
    }
}
