package dev.starforge.data.dataset;

import dev.starforge.data.DatasetException;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.parse.ParserException;
import dev.starforge.data.dataset.parse.ParserStarter;
import dev.starforge.data.dataset.report.DatasetReport;
import dev.starforge.data.dataset.report.HtmlReport;
import dev.starforge.data.dataset.report.Manifest;
import dev.starforge.data.dataset.report.TokenizerChoice;
import dev.starforge.data.dataset.sample.SampleFormat;
import dev.starforge.data.git.GitHistory;
import dev.starforge.text.file.FolderLock;
import dev.starforge.text.file.GitIgnore;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.eclipse.jgit.lib.ObjectId;

/**
 * Builds a dataset from the history of a repository. Everything is written to a work folder inside the output folder; the
 * manifest, moved into place last, makes the files part of the dataset.
 *
 * <p>An existing dataset grows by a generation of the commits it does not have, with splits of its own. Files of older
 * generations are never changed. Their training documents that leak into the new held-out ones are listed in the manifest as
 * tombstones and excluded from then on.
 */
public final class DatasetBuilder {
    private static final String BUILDING = ".building";

    /** Where parser processes unpack their libraries; removed with the work folder. */
    private static final String NATIVE = "native";

    private static final int MAX_REMOVALS = 20;

    private final DatasetConfig config;
    private final TokenizerChoice choice;
    private final ParserStarter starter;
    private final BuildProgress progress;
    private final LongSupplier nanoTime;
    private final Path work;

    public DatasetBuilder(
            DatasetConfig config,
            TokenizerChoice choice,
            ParserStarter starter,
            BuildProgress progress,
            LongSupplier nanoTime) {
        this.config = config;
        this.choice = choice;
        this.starter = starter;
        this.progress = progress;
        this.nanoTime = nanoTime;
        work = config.out().resolve(BUILDING);
    }

    /** The folder for the files of parser processes; it exists while the dataset in {@code out} is built. */
    public static Path parserFolder(Path out) {
        return out.resolve(BUILDING).resolve(NATIVE);
    }

    /** The folders that a build into {@code out} creates. */
    public static List<Path> missing(Path out) {
        return FolderLock.missing(out);
    }

    /** Builds or grows the dataset. A failed build leaves an existing dataset unchanged. */
    public DatasetReport build() {
        StageRunner runner = new StageRunner(progress, nanoTime);
        try (GitHistory history = GitHistory.open(
                config.repository(), config.get(DatasetKeys.MAX_BLOB_BYTES), config.get(DatasetKeys.SKIP_MISSING))) {
            ObjectId head = history.resolve(config.revision());
            if (history.isShallow()) {
                progress.message(
                        "Warning: " + config.repository() + " is a shallow clone, so its older commits are missing; "
                                + "`git fetch --unshallow` gets them.");
            }
            if (choice instanceof TokenizerChoice.ExistingTokenizer given) {
                // fails now rather than after the long stages
                new SampleFormat(given.tokenizer(), given.file(), config.get(DatasetKeys.FAMILY));
            }
            Manifest.refuseForeign(config.out(), work);
            List<Path> made = FolderLock.missing(config.out());
            Files.createDirectories(config.out());
            try (FolderLock _ = FolderLock.take(config.out(), "starforge dataset")) {
                if (!made.isEmpty() && GitIgnore.write(config.out())) {
                    progress.message(GitIgnore.notice(config.out()));
                }
                return build(runner, history, head);
            } finally {
                FolderLock.removeIfAlone(made);
            }
        } catch (ParserException e) {
            throw new DatasetException(config.out(), "was not built: " + e.getMessage(), e);
        } catch (IOException e) {
            throw new DatasetException(config.out(), "cannot be written: " + e.getMessage(), e);
        } catch (UncheckedIOException e) {
            throw new DatasetException(
                    config.out(),
                    "cannot be written: " + Objects.requireNonNull(e.getCause()).getMessage(),
                    e);
        }
    }

    /** Builds with the folder locked: unfinished files in it are those of an earlier run that has ended. */
    private DatasetReport build(StageRunner runner, GitHistory history, ObjectId head) throws IOException {
        try {
            Manifest.discardInterrupted(config.out(), work);
            Optional<Manifest> existing = Manifest.existing(config, choice);
            List<ObjectId> excluded = new ArrayList<>();
            existing.ifPresent(manifest -> manifest.heads().forEach(commit -> excluded.add(history.resolve(commit))));
            if (!config.since().isEmpty()) {
                excluded.add(history.resolve(config.since()));
            }
            runner.recordStart("open");
            List<ObjectId> commits = new ArrayList<>();
            runner.run(new BuildStage("walk", () -> commits.addAll(history.commits(head, excluded))));
            if (commits.isEmpty()) {
                if (existing.map(Manifest::generations).orElse(0) == 0) {
                    throw new DatasetException(
                            config.repository(),
                            "has no commits between " + config.since() + " and " + config.revision());
                }
                if (!Files.exists(config.out().resolve(HtmlReport.NAME))) {
                    HtmlReport.write(config.out(), choice.existing(config.out()).orElseThrow());
                }
                return DatasetReport.unchanged(existing.orElseThrow().family(), runner.seconds());
            }
            if (!config.get(DatasetKeys.SKIP_MISSING)) {
                runner.run(new BuildStage(
                        "check",
                        commits::size,
                        () -> history.firstMissing(commits, runner::advance).ifPresent(blob -> {
                            throw history.missing(blob);
                        })));
            }
            remove(work);
            DatasetEstimate.of(history, commits)
                    .requireSpace(config.out(), Files.getFileStore(config.out()).getUsableSpace());
            Files.createDirectory(work);
            Files.createDirectory(work.resolve(NATIVE));
            Manifest manifest = existing.orElseGet(() -> Manifest.empty(config, choice));
            Pipeline.Source source = new Pipeline.Source(history, head, commits, manifest);
            try (Pipeline pipeline = new Pipeline(config, choice, starter, work, runner, source)) {
                return pipeline.run();
            }
        } finally {
            Manifest.discardInterrupted(config.out(), work);
            remove(work);
        }
    }

    /**
     * Removes the files of an interrupted build, which may still be running.
     *
     * @param made the result of {@link #missing} before the build
     */
    public static void discard(Path out, List<Path> made) {
        for (int i = 0; i < MAX_REMOVALS && Files.exists(out.resolve(BUILDING)); i++) {
            try {
                remove(out.resolve(BUILDING));
            } catch (DatasetException | UncheckedIOException e) {
                continue; // the build has written a new file meanwhile
            }
        }
        try {
            FolderLock.removeIfAlone(made);
        } catch (IOException e) {
            throw new DatasetException(out, "cannot be removed: " + e.getMessage(), e);
        }
    }

    private static void remove(Path folder) {
        if (!Files.isDirectory(folder)) {
            return;
        }
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(Collections.reverseOrder()).toList()) {
                Files.deleteIfExists(file);
            }
        } catch (IOException e) {
            throw new DatasetException(folder, "cannot be removed: " + e.getMessage(), e);
        }
    }
}
