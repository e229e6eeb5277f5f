package dev.starforge.train.checkpoint;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.train.TrainException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class CheckpointsTest {
    @TempDir
    Path run;

    private static void fill(Path folder, String text) {
        try {
            Files.writeString(folder.resolve("a"), text);
            Files.writeString(folder.resolve("b"), text + text);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    private Checkpoints checkpoints(int limit) {
        return new Checkpoints(run, Checkpoints.REAL, limit);
    }

    @Test
    void newestSkipsAndReportsDamagedCheckpoints() throws IOException {
        Checkpoints checkpoints = checkpoints(10);
        for (int step = 1; step <= 5; step++) {
            checkpoints.save(step, 10, folder -> fill(folder, "text"));
        }
        Files.delete(run.resolve("checkpoint-5/complete.json"));
        Files.writeString(run.resolve("checkpoint-4/a"), "texT");
        Files.delete(run.resolve("checkpoint-3/b"));
        List<String> damaged = new ArrayList<>();
        assertThat(checkpoints.newest(damaged::add)).contains(run.resolve("checkpoint-2"));
        assertThat(damaged)
                .containsExactly(
                        run.resolve("checkpoint-5") + ": is damaged: it has no complete.json",
                        run.resolve("checkpoint-4") + ": is damaged: a is not what was written",
                        run.resolve("checkpoint-3") + ": is damaged: b is missing");
    }

    @Test
    void aFailedSaveKeepsThePreviousCheckpoint() {
        Checkpoints checkpoints = checkpoints(10);
        checkpoints.save(1, 10, folder -> fill(folder, "text"));
        assertThatThrownBy(() -> checkpoints.save(2, 10, folder -> {
                    fill(folder, "text");
                    throw new TrainException("the disk is full");
                }))
                .hasMessage("the disk is full");
        assertThat(checkpoints.all()).containsExactly(run.resolve("checkpoint-1"));
        assertThat(Checkpoints.target(run, "latest")).contains(run.resolve("checkpoint-1"));
        assertThat(run.toFile().list()).containsExactlyInAnyOrder("checkpoint-1", "latest");
    }

    @Test
    void aFullDiskIsReportedBeforeWriting() {
        Checkpoints checkpoints = new Checkpoints(run, folder -> 5 << 20, 3);
        checkpoints.save(1, 1 << 20, folder -> fill(folder, "text"));
        assertThatThrownBy(() -> checkpoints.save(2, 2 << 20, folder -> fill(folder, "text")))
                .isInstanceOf(TrainException.class)
                .hasMessageContaining(
                        "checkpoint-2: cannot be written: it needs about 6291456 bytes, the disk has 5242880");
        assertThat(checkpoints.all()).containsExactly(run.resolve("checkpoint-1"));
    }

    @Test
    void theBestOutlivesTheLimit() {
        Checkpoints checkpoints = checkpoints(2);
        checkpoints.markBest(checkpoints.save(1, 10, folder -> fill(folder, "1")));
        for (int step = 2; step <= 12; step++) {
            checkpoints.save(step, 10, folder -> fill(folder, "text"));
            checkpoints.prune();
        }
        assertThat(checkpoints.all()).containsExactly(run.resolve("checkpoint-1"), run.resolve("checkpoint-12"));
        assertThat(Checkpoints.resolve(run)).isEqualTo(run.resolve("checkpoint-1"));
    }

    /** A run that went on from an older one, since newer ones are damaged, has a latest that is not the highest. */
    @Test
    void damagedOnesDoNotCountAndTheLatestStays() throws IOException {
        Checkpoints checkpoints = checkpoints(2);
        for (int step : new int[] {1, 2, 3, 8, 9}) {
            checkpoints.save(step, 10, folder -> fill(folder, "text"));
        }
        Files.delete(run.resolve("checkpoint-8/complete.json"));
        Files.delete(run.resolve("checkpoint-9/a"));
        checkpoints.save(4, 10, folder -> fill(folder, "text"));
        checkpoints.prune();
        assertThat(checkpoints.all().stream().map(path -> path.getFileName().toString()))
                .containsExactly("checkpoint-3", "checkpoint-4", "checkpoint-8", "checkpoint-9");
        checkpoints(1).prune();
        assertThat(run.resolve("checkpoint-4")).isDirectory();
        assertThat(run.resolve("checkpoint-3")).doesNotExist();
    }

    @Test
    void damagedCheckpointsAreNotResolved() throws IOException {
        Checkpoints checkpoints = checkpoints(2);
        Path saved = checkpoints.save(1, 10, folder -> fill(folder, "text"));
        assertThat(Checkpoints.resolve(saved)).isEqualTo(saved);
        Files.writeString(saved.resolve("a"), "texT");
        for (Path named : List.of(run, saved)) {
            assertThatThrownBy(() -> Checkpoints.resolve(named))
                    .isInstanceOf(TrainException.class)
                    .hasMessage(saved + ": is damaged: a is not what was written");
        }
        Path foreign = Files.createDirectories(run.resolve("adapter"));
        assertThat(Checkpoints.resolve(foreign)).isEqualTo(foreign);
    }

    @Test
    void whatAnEndedProcessLeftIsRemoved() throws IOException {
        Files.createDirectories(run.resolve(".partial-checkpoint-7"));
        fill(run.resolve(".partial-checkpoint-7"), "half");
        checkpoints(3).clean();
        assertThat(run.toFile().list()).isEmpty();
    }

    @Test
    void amendingReplacesSomeFiles() throws IOException {
        Checkpoints checkpoints = new Checkpoints(run, Checkpoints.REAL, 3);
        Path saved = checkpoints.save(1, 10, path -> {
            fill(path, "weights");
            Checkpoints.writeAtomically(path.resolve("state.json"), "before");
        });
        List<Path> files;
        try (var entries = Files.list(saved)) {
            files = entries.toList();
        }
        checkpoints.amend(1, path -> Checkpoints.writeAtomically(path.resolve("state.json"), "after"));
        assertThat(saved.resolve("state.json")).hasContent("after");
        assertThat(files).allSatisfy(file -> assertThat(file).exists());
        assertThat(Checkpoints.defect(saved)).isEmpty();
        // killed between the two renames
        Files.move(saved, run.resolve(".amended-checkpoint-1"));
        checkpoints.clean();
        assertThat(Checkpoints.defect(saved)).isEmpty();
        Files.createDirectory(run.resolve(".amended-checkpoint-1"));
        checkpoints.clean();
        assertThat(run.resolve(".amended-checkpoint-1")).doesNotExist();
        assertThat(saved).isDirectory();
    }
}
