package dev.starforge.train.checkpoint;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.config.ConfigException;
import dev.starforge.train.TrainException;
import dev.starforge.train.config.RunConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Whose the output folder is. */
final class RunFolderTest {
    @TempDir
    Path folder;

    private Path run;

    private RunConfig config(String... settings) {
        run = folder.resolve("run");
        return RunConfig.defaults()
                .set(List.of("output.output_dir=\"" + run + "\""))
                .set(List.of(settings));
    }

    private Path begun() throws IOException {
        config();
        Files.createDirectories(run.resolve("checkpoint-3"));
        return Files.writeString(run.resolve(MetricsLog.FILE), "{}\n");
    }

    @Test
    void checkpointsOfAnotherProgramAreNotOurs() throws IOException {
        RunConfig config = config("output.overwrite=true");
        Path theirs = Files.createDirectories(run.resolve("checkpoint-500"));
        Files.writeString(theirs.resolve("trainer_state.json"), "{}");
        for (boolean resume : List.of(false, true)) {
            assertThatThrownBy(() -> RunFolder.claim(config, resume))
                    .isInstanceOf(ConfigException.class)
                    .hasMessageContaining("is not empty and not a run: it has checkpoint-500");
        }
        assertThat(theirs.resolve("trainer_state.json")).exists();
    }

    @Test
    void aFolderWithOtherThingsIsRefusedAndLeftAsItIs() throws IOException {
        RunConfig config = config("output.overwrite=true");
        Files.createDirectories(run);
        Path mine = Files.writeString(run.resolve("config.yaml"), "mine: true\n");
        Files.writeString(run.resolve("report.html"), "mine");
        for (boolean resume : List.of(false, true)) {
            assertThatThrownBy(() -> RunFolder.claim(config, resume))
                    .isInstanceOf(ConfigException.class)
                    .hasMessageContaining("is not empty and not a run: it has config.yaml, report.html");
        }
        assertThat(mine).hasContent("mine: true");
        assertThat(run).isDirectoryNotContaining("glob:**.lock");
    }

    @Test
    void aFileInItsPlaceIsRefused() throws IOException {
        RunConfig config = config();
        Files.writeString(run, "a file");
        assertThatThrownBy(() -> RunFolder.claim(config, false))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("is a file");
    }

    @Test
    void oneWriterAtATimeAlsoWithOverwrite() throws IOException {
        Path metrics = begun();
        try (RunFolder _ = RunFolder.claim(config(), true)) {
            for (RunConfig second : List.of(config(), config("output.overwrite=true"))) {
                for (boolean resume : List.of(false, true)) {
                    assertThatThrownBy(() -> RunFolder.claim(second, resume))
                            .isInstanceOf(TrainException.class)
                            .hasMessageStartingWith(run + ": is being written by another run (starforge train, process "
                                    + ProcessHandle.current().pid() + "): wait for it");
                }
            }
            assertThat(metrics).exists();
            assertThat(run.resolve("checkpoint-3")).isDirectory();
        }
        RunFolder.claim(config(), true).close();
    }

    @Test
    void aRunThatDidNotStartLeavesNoFiles() throws IOException {
        try (RunFolder _ = RunFolder.claim(config(), false)) {
            Files.createDirectories(run.resolve("base"));
            Files.createDirectories(run.resolve(".partial-base"));
            Files.writeString(run.resolve("config.yaml"), "a: b");
        }
        assertThat(run).doesNotExist();
    }

    @Test
    void otherFilesInARunAreKept() throws IOException {
        begun();
        Path notes = Files.writeString(run.resolve("notes.txt"), "mine");
        RunFolder.claim(config(), true).close();
        try (RunFolder _ = RunFolder.claim(config("output.overwrite=true"), false)) {
            assertThat(run.resolve("checkpoint-3")).doesNotExist();
        }
        assertThat(notes).hasContent("mine");
        assertThat(run.resolve("checkpoint-3")).isDirectory();
    }

    @Test
    void withoutARunThereIsNothingToResume() {
        RunConfig config = config();
        assertThatThrownBy(() -> RunFolder.claim(config, true))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("no run to resume; start one without --resume");
        assertThat(run).doesNotExist();
    }

    /** Killed before its first step: the lock says whose the folder is. */
    @Test
    void aRunThatWasKilledBeforeItBeganCanBeResumed() throws IOException {
        RunConfig config = config();
        Files.createDirectories(run.resolve("base"));
        Files.writeString(run.resolve(".lock"), "starforge train, process 1\n");
        try (RunFolder _ = RunFolder.claim(config, true)) {
            assertThat(run.resolve("base")).isDirectory();
        }
    }
}
