package dev.starforge.data.dataset.config;

import dev.starforge.text.config.Key;
import dev.starforge.text.config.Settings;
import java.nio.file.Path;
import java.util.OptionalInt;

/**
 * The inputs of a build: repository, output folder, and the settings of {@link DatasetKeys} with defaults filled in.
 *
 * @param repository a work tree or a bare repository
 * @param out folder of the dataset, which may not exist yet
 * @param revision the newest commit to read
 * @param since commits of this revision's history are left out; empty for none
 */
public record DatasetConfig(Path repository, Path out, String revision, String since, Settings settings) {
    private static final int CONTEXT = 2048;

    /** The unit of the middle in fill-in-the-middle samples. */
    public enum FimUnit {
        CHARACTER,
        LINE,
        FEW_LINES,
        CURSOR,
        NODE
    }

    /** The order of the files in a document. */
    public enum FileOrder {
        RANDOM,
        DEPENDENCY
    }

    /** Additional files in the schemas of other programs. */
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

    /** The maximum length of a document in tokens. */
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
