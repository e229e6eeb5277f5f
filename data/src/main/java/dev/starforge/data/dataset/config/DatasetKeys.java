package dev.starforge.data.dataset.config;

import dev.starforge.text.config.Key;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;

/**
 * The settings of a dataset, a section of the one file of settings. Those that decide what a dataset holds are recorded in its
 * manifest under their names without the section, and a dataset grows only with the same.
 */
public final class DatasetKeys {
    public static final String SECTION = "dataset";

    /** Tokens that a document must be allowed to have. */
    public static final int SHORTEST_CONTEXT = 64;

    private static final List<Key<?>> TABLE = new ArrayList<>();
    private static final List<Key<?>> DECIDING = new ArrayList<>();
    private static final int MANY = Integer.MAX_VALUE;

    public static final Key<String> TOKENIZER = row(Key.text(
            "dataset.tokenizer",
            "auto",
            "A tokenizer.json, a model folder or a .gguf file, or `train:N`: one of N tokens, trained on the training"
                    + " split. `auto` is that of model.pretrained_model where it is at hand, else one is trained."));
    public static final Key<String> NAME = deciding(
            Key.text("dataset.name", "", "The repository's name in samples; the folder's name if there is none."));
    static final Key<Long> SEED =
            deciding(Key.wide("dataset.seed", 42, Long.MIN_VALUE, Long.MAX_VALUE, "Of all randomness."));
    public static final Key<Integer> THREADS =
            row(Key.whole("dataset.threads", 0, 0, 1024, "0 is one for each core. The dataset does not depend on it."));
    public static final Key<Integer> MAX_BLOB_BYTES = deciding(
            Key.whole("dataset.history.max_blob_bytes", 8 << 20, 1, 1 << 28, "Larger files are listed, and not read."));
    public static final Key<Boolean> COPIES = deciding(
            Key.flag("dataset.history.copies", false, "Whether copies are looked for, as with `git diff -C`."));
    public static final Key<Boolean> SKIP_MISSING = row(Key.flag(
            "dataset.history.skip_missing",
            false,
            "Files that a partial clone lacks are left out and counted; otherwise they are an error."));
    public static final Key<Boolean> REDACT_PEOPLE = deciding(
            Key.flag("dataset.redact.people", true, "Whether names and addresses in commit metadata are replaced."));

    public static final Key<Integer> MAX_LINES =
            deciding(Key.whole("dataset.filters.max_lines", 100_000, 1, MANY, "Lines of a file at most."));
    public static final Key<Integer> MEAN_LINE = deciding(
            Key.whole("dataset.filters.mean_line", 100, 1, MANY, "Characters of a line, on average, at most."));
    public static final Key<Integer> LONGEST_LINE =
            deciding(Key.whole("dataset.filters.longest_line", 1000, 1, MANY, "Bytes of the longest line at most."));
    public static final Key<Double> MIN_ALPHABETIC =
            deciding(Key.number("dataset.filters.min_alphabetic", 0.25, 0, 1, "Share of letters at least."));
    public static final Key<Integer> MAX_ENCODED_RUN = deciding(Key.whole(
            "dataset.filters.max_encoded_run",
            1024,
            1,
            MANY,
            "Characters of base64, hexadecimal or escapes in a row at most."));
    public static final Key<Double> MAX_ENCODED_SHARE = deciding(
            Key.number("dataset.filters.max_encoded_share", 0.5, 0, 1, "Share of a file in such runs at most."));
    public static final Key<Integer> DATA_LINES = deciding(
            Key.whole("dataset.filters.data_lines", 512, 1, MANY, "Lines of a data or configuration file at most."));
    public static final Key<Integer> MAX_SECRETS = deciding(Key.whole(
            "dataset.filters.max_secrets",
            5,
            0,
            MANY,
            "A file with more different values that are surely secrets is dropped, redacted or not."));
    public static final Key<List<String>> INCLUDE = deciding(Key.patterns(
            "dataset.filters.include", "Paths to take, all others are left out: `*` within a folder, `**` across."));
    public static final Key<List<String>> EXCLUDE =
            deciding(Key.patterns("dataset.filters.exclude", "Paths to leave out, likewise."));
    public static final Key<String> LICENSES = deciding(Key.choice(
            "dataset.filters.licenses",
            "any",
            List.of("any", "permissive"),
            "`permissive` leaves out files that no permissive licence covers."));
    public static final Key<Double> SIMILARITY = deciding(Key.number(
            "dataset.duplicates.similarity",
            0.7,
            0,
            1,
            "Jaccard index of word 5-grams from which on two texts are duplicates."));
    public static final Key<Integer> MIN_WORDS = deciding(
            Key.whole("dataset.duplicates.min_words", 10, 1, MANY, "A shorter text is only compared exactly."));

    public static final Key<Double> TRAIN = deciding(
            Key.number("dataset.splits.train", 85, 0, 1e6, "Share of commits to train on, the oldest; above 0."));
    public static final Key<Double> VALIDATION =
            deciding(Key.number("dataset.splits.validation", 10, 0, 1e6, "Share of commits to validate on."));
    public static final Key<Double> TEST =
            deciding(Key.number("dataset.splits.test", 5, 0, 1e6, "Share of commits to test on, the newest."));
    public static final Key<Integer> WINDOW_WORDS = deciding(Key.whole(
            "dataset.splits.window_words", 30, 5, 10_000, "So many words in a row must not be on both sides."));
    public static final Key<Integer> BOILERPLATE_FILES = deciding(Key.whole(
            "dataset.splits.boilerplate_files",
            3,
            2,
            MANY,
            "A window that so many files have is no leak but boilerplate; it is then not tested."));

    public static final Key<Boolean> FILES = deciding(Key.flag(
            "dataset.samples.files", true, "Samples of files, as they were at the end of the training commits."));
    public static final Key<Boolean> COMMITS =
            deciding(Key.flag("dataset.samples.commits", true, "Samples of commits."));
    public static final Key<Integer> COMMIT_DOCUMENTS = deciding(Key.whole(
            "dataset.samples.commit_documents",
            0,
            0,
            MANY,
            "Documents of one commit at most, drawn by lot, so that an import of a whole tree does not"
                    + " outweigh every change. 0 is all."));
    public static final Key<Boolean> CHUNKS =
            deciding(Key.flag("dataset.samples.chunks", true, "Samples of changed functions, to be filled in."));
    public static final Key<OptionalInt> CONTEXT_LENGTH = deciding(Key.automatic(
            "dataset.samples.context_length",
            SHORTEST_CONTEXT,
            1 << 24,
            "Tokens of a document at most; `auto` is model.context_window."));
    public static final Key<Double> METADATA = deciding(Key.number(
            "dataset.samples.metadata", 0.5, 0, 1, "Share of documents that name the repository and their paths."));
    public static final Key<Double> FIM_DOCUMENTS = deciding(Key.number(
            "dataset.samples.fim_documents", 0.5, 0, 1, "Share of documents some files of which are to be filled in."));
    public static final Key<Double> FIM_FILES =
            deciding(Key.number("dataset.samples.fim_files", 0.5, 0, 1, "Share of the files of such a document."));
    public static final Key<Double> SPM =
            deciding(Key.number("dataset.samples.spm", 0, 0, 1, "Share of those with the suffix first."));
    public static final Key<DatasetConfig.FimUnit> SPAN = deciding(Key.choice(
            "dataset.samples.span",
            DatasetConfig.FimUnit.CHARACTER,
            "What is filled in: any characters, whole lines, one to eight whole lines, or a node of the syntax tree."));
    public static final Key<DatasetConfig.FileOrder> ORDER = deciding(Key.choice(
            "dataset.samples.order",
            DatasetConfig.FileOrder.RANDOM,
            "Files of a document by lot, or after those that they use."));
    public static final Key<Double> WHOLE_BASE = deciding(Key.number(
            "dataset.samples.whole_base", 0.2, 0, 1, "Share of commits that show whole files before the change."));
    public static final Key<Integer> BASE_LINES = deciding(Key.whole(
            "dataset.samples.base_lines", 32, 0, 10_000, "Lines around the change that others show, at most."));
    public static final Key<Integer> SIGNATURES = deciding(Key.whole(
            "dataset.samples.signatures",
            16,
            0,
            1000,
            "Declarations of other files that a chunk is shown with, at most."));
    public static final Key<String> FAMILY = deciding(Key.choice(
            "dataset.samples.family",
            "auto",
            List.of("auto", "starcoder2", "starcoder1", "qwen", "deepseek", "codellama", "plain"),
            "Whose format samples have: an error if the vocabulary lacks its tokens; `auto` is the one it has"
                    + " tokens for."));
    public static final Key<DatasetConfig.ExportFormat> EXPORT = row(Key.choice(
            "dataset.export",
            DatasetConfig.ExportFormat.NONE,
            "Further files, in JSON schemas that other programs read."));

    public static final List<Key<?>> ALL = List.copyOf(TABLE);

    private DatasetKeys() {}

    /** The keys that decide what a dataset holds. */
    public static List<Key<?>> deciding() {
        return List.copyOf(DECIDING);
    }

    /** The name of a key in manifests, and where its section goes without saying. */
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
