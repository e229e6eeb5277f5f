package dev.starforge.train.checkpoint;

import dev.starforge.text.FileException;
import dev.starforge.text.file.FolderLock;
import dev.starforge.text.file.GitIgnore;
import dev.starforge.train.TrainException;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The output folder of a run, locked for one process. With {@code output.overwrite}, the old run is set aside until the
 * new one has started, and restored if it does not start. A new run that does not start leaves no files.
 *
 * <p>A run has started when it has metrics. The metrics are moved first when a run is set aside and last when it is
 * restored, so a process that is killed in between loses nothing.
 */
public final class RunFolder implements AutoCloseable {
    public static final String BASE = "base";
    public static final String CONFIG = "config.yaml";
    private static final String ASIDE = ".replaced";
    private static final String HOLDER = "starforge train";

    /** Names that belong to a run. */
    private static final String OWN = "checkpoint-\\d+|latest|best|" + BASE
            + "|metrics\\.jsonl|summary\\.json|report\\.html|samples\\.json|config\\.yaml";

    private final Path run;
    private final FolderLock lock;
    private final List<Path> made;
    private final boolean ignored;

    private RunFolder(Path run, FolderLock lock, List<Path> made, boolean ignored) {
        this.run = run;
        this.lock = lock;
        this.made = made;
        this.ignored = ignored;
    }

    /** A message about the new folder; empty if there is nothing to tell. */
    public Optional<String> notice() {
        return ignored ? Optional.of(GitIgnore.notice(run)) : Optional.empty();
    }

    /** Checks that the settings permit writing to the folder. Throws if not; changes nothing. */
    public static void check(RunConfig config, boolean resume) {
        Path run = Path.of(config.get(Keys.OUTPUT));
        if (Files.exists(run) && !Files.isDirectory(run)) {
            throw config.wrong(Keys.OUTPUT, "is a file; choose a new folder");
        }
        try {
            FolderLock.requireFree(run);
        } catch (FileException busy) {
            throw new TrainException(String.valueOf(busy.getMessage()), busy);
        } catch (IOException failure) {
            throw new TrainException(run + ": cannot be written: " + failure, failure);
        }
        boolean isRun = isRun(run);
        if (!isRun && !foreign(run).isEmpty()) {
            throw config.wrong(
                    Keys.OUTPUT, "is not empty and not a run: it has " + foreign(run) + "; choose another folder");
        }
        if (resume && !isRun) {
            throw config.wrong(Keys.OUTPUT, "no run to resume; start one without --resume");
        }
        if (!resume && hasBegun(run) && !config.get(Keys.OVERWRITE)) {
            throw config.wrong(Keys.OUTPUT, "a run already exists; continue it with --resume, or set output.overwrite");
        }
    }

    /** Locks the folder for this process until it is closed. */
    public static RunFolder claim(RunConfig config, boolean resume) {
        check(config, resume);
        Path run = Path.of(config.get(Keys.OUTPUT));
        try {
            List<Path> made = FolderLock.missing(run);
            Files.createDirectories(run);
            FolderLock lock = FolderLock.take(run, HOLDER);
            try {
                RunFolder folder = new RunFolder(run, lock, made, !made.isEmpty() && GitIgnore.write(run));
                folder.finishOverwrite();
                if (!resume && hasBegun(run)) {
                    folder.setAside();
                }
                return folder;
            } catch (IOException | RuntimeException failure) {
                lock.close();
                throw failure;
            }
        } catch (FileException busy) {
            throw new TrainException(String.valueOf(busy.getMessage()), busy);
        } catch (IOException failure) {
            throw new TrainException(run + ": cannot be written: " + failure, failure);
        }
    }

    /** Returns true if the folder is a run of this program: it has metrics, or its lock names this command. */
    private static boolean isRun(Path run) {
        return hasBegun(run) || FolderLock.holder(run).startsWith(HOLDER);
    }

    private static boolean hasBegun(Path run) {
        return Files.exists(run.resolve(MetricsLog.FILE))
                || Files.isDirectory(run.resolve(ASIDE))
                || hasCheckpoint(run);
    }

    /** Returns true if the folder has a checkpoint of this program; other programs use the same folder name. */
    private static boolean hasCheckpoint(Path run) {
        return new Checkpoints(run, Checkpoints.REAL, 1)
                .all().stream()
                        .anyMatch(each ->
                                Checkpoints.isCheckpoint(each) || Files.exists(each.resolve(Checkpoints.STATE)));
    }

    /** The first names in a folder other than the lock. */
    private static String foreign(Path run) {
        if (!Files.isDirectory(run)) {
            return "";
        }
        try (Stream<Path> entries = Files.list(run)) {
            List<String> names = entries.map(path -> path.getFileName().toString())
                    .filter(name -> !name.equals(FolderLock.FILE) && !name.equals(GitIgnore.FILE))
                    .sorted()
                    .toList();
            return names.stream().limit(3).collect(Collectors.joining(", ")) + (names.size() > 3 ? ", ..." : "");
        } catch (IOException failure) {
            throw new TrainException(run + ": cannot be read: " + failure, failure);
        }
    }

    private void setAside() throws IOException {
        Path aside = Files.createDirectories(run.resolve(ASIDE));
        for (Path path : metricsFirst(run)) {
            if (path.getFileName().toString().matches(OWN)) {
                Files.move(path, aside.resolve(path.getFileName()), StandardCopyOption.ATOMIC_MOVE);
            }
        }
    }

    /** Removes the old run that was set aside if the new run has started; otherwise restores it. */
    public void finishOverwrite() {
        Path aside = run.resolve(ASIDE);
        try {
            if (Files.isDirectory(aside) && !Files.exists(run.resolve(MetricsLog.FILE))) {
                for (Path path : metricsFirst(aside).reversed()) {
                    Path back = run.resolve(path.getFileName());
                    Checkpoints.remove(back);
                    Files.move(path, back, StandardCopyOption.ATOMIC_MOVE);
                }
            }
            Checkpoints.remove(aside);
        } catch (IOException failure) {
            throw new TrainException(aside + ": cannot be restored: " + failure, failure);
        }
    }

    private static List<Path> metricsFirst(Path folder) throws IOException {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.sorted(Comparator.comparing(
                            path -> !path.getFileName().toString().equals(MetricsLog.FILE)))
                    .toList();
        }
    }

    /** Removes the files of a run that did not start: its base model and settings. */
    private void discard() throws IOException {
        try (Stream<Path> entries = Files.list(run)) {
            for (Path path : entries.toList()) {
                String name = path.getFileName().toString();
                if (name.equals(BASE) || name.equals(CONFIG) || name.startsWith(Checkpoints.PARTIAL)) {
                    Checkpoints.remove(path);
                }
            }
        }
    }

    @Override
    public void close() {
        try (lock) {
            if (!Files.exists(run.resolve(MetricsLog.FILE)) && !hasCheckpoint(run)) {
                discard();
                lock.forget();
            }
            finishOverwrite();
            FolderLock.removeIfAlone(made);
        } catch (IOException failure) {
            throw new TrainException(run + ": cannot be unlocked: " + failure, failure);
        }
    }
}
