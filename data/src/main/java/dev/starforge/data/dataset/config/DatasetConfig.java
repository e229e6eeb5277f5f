package dev.starforge.data.dataset.config;

import dev.starforge.text.config.Key;
import dev.starforge.text.config.Settings;
import java.nio.file.Path;
import java.util.OptionalInt;

/**
 * What a dataset is made of and how: places, and the settings of {@link DatasetKeys}, with nothing left to be guessed.
 *
 * @param repository a work tree or a bare repository
 * @param out where the dataset lies or will lie
 * @param revision newest commit to read
 * @param since leave out what this revision contains; empty for everything
 */
public record DatasetConfig(Path repository, Path out, String revision, String since, Settings settings) {
    private static final int CONTEXT = 2048;

    /** Which part of a text is cut out to be filled in. */
    public enum FimUnit {
        CHARACTER,
        LINE,
        FEW_LINES,
        NODE
    }

    /** In which order files stand in a document. */
    public enum FileOrder {
        RANDOM,
        DEPENDENCY
    }

    /** Further files, in schemas that other programs read. */
    public enum ExportFormat {
        NONE,
        SEQUENCES,
        ENHANCED,
        BOTH
    }

    public DatasetConfig {
        if (settings.get(DatasetKeys.TRAIN) <= 0) {
            throw settings.wrong(DatasetKeys.TRAIN, "expected a share above 0");
        }
        if (settings.get(DatasetKeys.NAME).isEmpty()) {
            Path folder = repository.toAbsolutePath().normalize().getFileName();
            String name = folder == null ? "repository" : folder.toString().replaceAll("\\.git$", "");
            settings = settings.with(DatasetKeys.NAME, name);
        }
        if (settings.get(DatasetKeys.CONTEXT_LENGTH).isEmpty()) {
            settings = settings.with(DatasetKeys.CONTEXT_LENGTH, OptionalInt.of(CONTEXT));
        }
    }

    public <T> T get(Key<T> key) {
        return settings.get(key);
    }

    /** The repository's name in samples. */
    public String name() {
        return get(DatasetKeys.NAME);
    }

    public long seed() {
        return get(DatasetKeys.SEED);
    }

    /** In tokens; no document is longer. */
    public int contextLength() {
        return get(DatasetKeys.CONTEXT_LENGTH).orElseThrow();
    }

    public int threads() {
        int threads = get(DatasetKeys.THREADS);
        return threads == 0 ? Runtime.getRuntime().availableProcessors() : threads;
    }

    public boolean permissiveOnly() {
        return get(DatasetKeys.LICENSES).equals("permissive");
    }
}
