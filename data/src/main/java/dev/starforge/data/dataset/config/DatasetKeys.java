package dev.starforge.data.dataset.config;

import dev.starforge.text.config.Key;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;

/**
 * The settings in the section {@code dataset} of the configuration file. Settings that decide the content are recorded in the
 * manifest, and a dataset grows only with the same values.
 */
public final class DatasetKeys {
    public static final String SECTION = "dataset";

    /** The smallest allowed context length. */
    public static final int SHORTEST_CONTEXT = 64;

    private static final List<Key<?>> TABLE = new ArrayList<>();
    private static final List<Key<?>> DECIDING = new ArrayList<>();
    private static final int INT_MAX = Integer.MAX_VALUE;

    public static final Key<String> TOKENIZER = row(
            Key.text(
                    "dataset.tokenizer",
                    "auto",
                    "A tokenizer.json, a model folder or a .gguf file, or `train:N`: one of N tokens, trained on the training"
                            + " split. `auto` is that of model.pretrained_model if it is on this machine, otherwise one is trained."));
    public static final Key<String> NAME =
            deciding(Key.text("dataset.name", "", "The repository's name in samples. Default: the folder's name."));
    static final Key<Long> SEED = deciding(
            Key.longInteger("dataset.seed", 42, Long.MIN_VALUE, Long.MAX_VALUE, "Seed of all random choices."));
    public static final Key<Integer> THREADS =
            row(Key.integer("dataset.threads", 0, 0, 1024, "0 is one per core. The dataset does not depend on it."));
    public static final Key<Integer> MAX_BLOB_BYTES = deciding(Key.integer(
            "dataset.history.max_blob_bytes", 8 << 20, 1, 1 << 28, "Larger files are listed but not read."));
    public static final Key<Boolean> COPIES =
            deciding(Key.flag("dataset.history.copies", false, "Whether to detect copies, as with `git diff -C`."));
    public static final Key<Boolean> SKIP_MISSING = row(Key.flag(
            "dataset.history.skip_missing",
            false,
            "Leaves out and counts files that a partial clone lacks; otherwise they are an error."));
    public static final Key<Boolean> REDACT_PEOPLE = deciding(Key.flag(
            "dataset.redact.people", true, "Whether to replace names and e-mail addresses in commit metadata."));

    public static final Key<Integer> MAX_LINES = deciding(
            Key.integer("dataset.filters.max_lines", 100_000, 1, INT_MAX, "Maximum number of lines of a file."));
    public static final Key<Integer> MEAN_LINE = deciding(Key.integer(
            "dataset.filters.mean_line",
            100,
            1,
            INT_MAX,
            "Maximum average line length in characters, without overlong lines."));
    public static final Key<Integer> LONGEST_LINE = deciding(Key.integer(
            "dataset.filters.longest_line",
            1000,
            1,
            INT_MAX,
            "Longer lines, in bytes, are overlong: files are dropped if these are more than half of them."));
    public static final Key<Double> MIN_ALPHABETIC =
            deciding(Key.number("dataset.filters.min_alphabetic", 0.25, 0, 1, "Minimum share of letters."));
    public static final Key<Integer> MAX_ENCODED_RUN = deciding(Key.integer(
            "dataset.filters.max_encoded_run",
            1024,
            1,
            INT_MAX,
            "Maximum length of a run of base64, hexadecimal digits or escapes."));
    public static final Key<Double> MAX_ENCODED_SHARE = deciding(
            Key.number("dataset.filters.max_encoded_share", 0.5, 0, 1, "Maximum share of a file in such runs."));
    public static final Key<Integer> DATA_LINES = deciding(Key.integer(
            "dataset.filters.data_lines", 512, 1, INT_MAX, "Maximum number of lines of a data or configuration file."));
    public static final Key<Integer> MAX_SECRETS = deciding(Key.integer(
            "dataset.filters.max_secrets",
            5,
            0,
            INT_MAX,
            "Files with more distinct high-confidence secrets are dropped."));
    public static final Key<List<String>> INCLUDE = deciding(Key.patterns(
            "dataset.filters.include",
            "Globs of paths to include, all others are left out: `*` matches within a folder, `**` across folders."));
    public static final Key<List<String>> EXCLUDE =
            deciding(Key.patterns("dataset.filters.exclude", "Globs of paths to leave out."));
    public static final Key<String> LICENSES = deciding(Key.choice(
            "dataset.filters.licenses",
            "any",
            List.of("any", "permissive"),
            "`permissive` leaves out files without a permissive license."));
    public static final Key<Double> SIMILARITY = deciding(Key.number(
            "dataset.duplicates.similarity", 0.7, 0, 1, "Minimum Jaccard index of word 5-grams of duplicates."));
    public static final Key<Integer> MIN_WORDS = deciding(Key.integer(
            "dataset.duplicates.min_words", 10, 1, INT_MAX, "Shorter texts are duplicates only if they are equal."));

    public static final Key<Double> TRAIN = deciding(
            Key.number("dataset.splits.train", 85, 0, 1e6, "Share of commits for training, the oldest ones; above 0."));
    public static final Key<Double> VALIDATION =
            deciding(Key.number("dataset.splits.validation", 10, 0, 1e6, "Share of commits for validation."));
    public static final Key<Double> TEST = deciding(
            Key.number("dataset.splits.test", 5, 0, 1e6, "Share of commits for the test split, the newest ones."));
    public static final Key<Integer> WINDOW_WORDS = deciding(Key.integer(
            "dataset.splits.window_words",
            30,
            5,
            10_000,
            "Length in words of a window that must not be in both training and held-out text."));
    public static final Key<Integer> BOILERPLATE_FILES = deciding(Key.integer(
            "dataset.splits.boilerplate_files",
            3,
            2,
            INT_MAX,
            "A window in at least this many files is boilerplate, not a leak; it does not count in held-out samples."));

    public static final Key<Boolean> FILES = deciding(Key.flag(
            "dataset.samples.files", true, "Whether to make samples of files, as of the last training commit."));
    public static final Key<Boolean> COMMITS =
            deciding(Key.flag("dataset.samples.commits", true, "Whether to make samples of commits."));
    public static final Key<Integer> COMMIT_DOCUMENTS = deciding(Key.integer(
            "dataset.samples.commit_documents",
            0,
            0,
            INT_MAX,
            "Maximum number of documents of a commit, chosen at random, so that the import of a whole tree does not"
                    + " outweigh other changes. 0 is no limit."));
    public static final Key<Boolean> CHUNKS = deciding(Key.flag(
            "dataset.samples.chunks", true, "Whether to make fill-in-the-middle samples of changed functions."));
    public static final Key<OptionalInt> CONTEXT_LENGTH = deciding(Key.automatic(
            "dataset.samples.context_length",
            SHORTEST_CONTEXT,
            1 << 24,
            "Maximum length of a document in tokens; `auto` is model.context_window."));
    public static final Key<Double> METADATA = deciding(Key.number(
            "dataset.samples.metadata", 0.5, 0, 1, "Share of documents with the repository name and file paths."));
    public static final Key<Double> FIM_DOCUMENTS = deciding(Key.number(
            "dataset.samples.fim_documents", 0.5, 0, 1, "Share of documents with fill-in-the-middle files."));
    public static final Key<Double> FIM_FILES = deciding(Key.number(
            "dataset.samples.fim_files", 0.5, 0, 1, "Share of fill-in-the-middle files in such a document."));
    public static final Key<Double> SPM =
            deciding(Key.number("dataset.samples.spm", 0, 0, 1, "Share of those in suffix-prefix-middle order (SPM)."));
    public static final Key<DatasetConfig.FimUnit> SPAN = deciding(
            Key.choice(
                    "dataset.samples.span",
                    DatasetConfig.FimUnit.CHARACTER,
                    "Unit of the middle: any characters, whole lines, one to eight whole lines, what an editor asks for at a cursor"
                            + " (from any character or the start of a line, mostly to the end of the line), or a node of the syntax tree."));
    public static final Key<DatasetConfig.FileOrder> ORDER = deciding(Key.choice(
            "dataset.samples.order",
            DatasetConfig.FileOrder.RANDOM,
            "Order of files in a document: random, or after the files that they use."));
    public static final Key<Double> WHOLE_BASE = deciding(Key.number(
            "dataset.samples.whole_base",
            0.2,
            0,
            1,
            "Share of commit samples that show whole files before the change."));
    public static final Key<Integer> BASE_LINES = deciding(Key.integer(
            "dataset.samples.base_lines",
            32,
            0,
            10_000,
            "Maximum number of lines around the change in the other samples."));
    public static final Key<Integer> SIGNATURES = deciding(Key.integer(
            "dataset.samples.signatures",
            16,
            0,
            1000,
            "Maximum number of declarations of other files in the context of a chunk."));
    public static final Key<String> FAMILY = deciding(Key.choice(
            "dataset.samples.family",
            "auto",
            List.of("auto", "starcoder2", "starcoder1", "qwen", "deepseek", "codellama", "plain"),
            "Model family whose sample format is used; an error if the vocabulary lacks its tokens. `auto` is the first"
                    + " whose tokens it has."));
    public static final Key<DatasetConfig.ExportFormat> EXPORT = row(Key.choice(
            "dataset.export",
            DatasetConfig.ExportFormat.NONE,
            "Additional JSON files in the schemas of other programs."));

    public static final List<Key<?>> ALL = List.copyOf(TABLE);

    private DatasetKeys() {}

    /** The keys that decide the content of a dataset. */
    public static List<Key<?>> deciding() {
        return List.copyOf(DECIDING);
    }

    /** The name of a key without its section, as in manifests. */
    public static String shortName(Key<?> key) {
        return key.path().substring(SECTION.length() + 1);
    }

    private static <T> Key<T> row(Key<T> key) {
        TABLE.add(key);
        return key;
    }

    private static <T> Key<T> deciding(Key<T> key) {
        DECIDING.add(key);
        return row(key);
    }
}
