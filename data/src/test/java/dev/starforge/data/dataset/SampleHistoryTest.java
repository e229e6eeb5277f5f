package dev.starforge.data.dataset;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.git.GitHistory;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.ObjectId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class SampleHistoryTest {
    @Test
    void isAlwaysTheSameAndHasObjectsInPacksAndOutside(@TempDir Path folder) throws IOException {
        assertThat(write(folder.resolve("one"))).isEqualTo(write(folder.resolve("two")));
        try (FileRepository repository =
                new FileRepository(folder.resolve("one").toFile())) {
            assertThat(repository.getObjectDatabase().getPacks()).hasSize(1);
            assertThat(folder.resolve("one/objects").toFile().list((parent, name) -> name.length() == 2))
                    .hasSizeGreaterThan(100);
        }
    }

    private static List<ObjectId> write(Path repository) throws IOException {
        SampleHistory.write(repository);
        try (GitHistory history = GitHistory.open(repository, 1 << 20, false)) {
            return history.commits(history.resolve("HEAD"), List.of());
        }
    }
}
