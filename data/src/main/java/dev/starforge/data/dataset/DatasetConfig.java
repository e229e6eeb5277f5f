package dev.starforge.data.dataset;

import java.nio.file.Path;
import java.util.List;

/**
 * Everything that decides what a dataset holds. Threads and places are in here, too, but do not.
 *
 * @param repository a work tree or a bare repository
 * @param out where the dataset lies or will lie
 * @param revision newest commit to read
 * @param since leave out what this revision contains; empty for everything
 * @param name of the repository in samples
 * @param largestBlob in bytes; a larger file is listed and not read
 * @param copies whether copies are looked for, as with {@code git diff -C}
 * @param skipMissing whether files that a partial clone lacks are left out, else they are an error
 * @param redactPeople whether names and addresses of authors are replaced
 */
public record DatasetConfig(
        Path repository,
        Path out,
        String revision,
        String since,
        String name,
        long seed,
        int threads,
        int largestBlob,
        boolean copies,
        boolean skipMissing,
        boolean redactPeople,
        Filters filters,
        Duplicates duplicates,
        Shares shares,
        Samples samples,
        Export export) {

    /**
     * What a file must be to be learned from.
     *
     * @param longestMean characters a line, on average
     * @param longestRun of base64, hexadecimal or escapes, in characters
     * @param mostEncoded share of the file in such runs
     * @param dataLines a file of data may have
     * @param mostSecrets a file with more of them is dropped, redacted or not
     */
    public record Filters(
            int mostLines,
            int longestMean,
            int longestLine,
            double leastAlphabetic,
            int longestRun,
            double mostEncoded,
            int dataLines,
            int mostSecrets,
            List<String> include,
            List<String> exclude,
            boolean permissiveOnly) {}

    /**
     * @param similarity Jaccard index of word 5-grams from which on two texts are duplicates
     * @param leastWords a shorter text is only compared exactly
     */
    public record Duplicates(double similarity, int leastWords) {}

    /**
     * How commits are divided, by time.
     *
     * @param windowWords so many words in a row must not be on both sides
     * @param boilerplateFiles a window that so many files have is no leak but boilerplate; it is then not tested
     */
    public record Shares(double train, double validation, double test, int windowWords, int boilerplateFiles) {
        public Shares {
            if (train <= 0 || validation < 0 || test < 0) {
                throw new IllegalArgumentException("splits: the shares are " + train + ", " + validation + " and "
                        + test + ", expected a positive one for train and none below 0");
            }
        }
    }

    /** Which part of a text is cut out to be filled in. */
    public enum Span {
        CHARACTER,
        LINE,
        NODE
    }

    /** In which order files stand in a document. */
    public enum Order {
        RANDOM,
        DEPENDENCY
    }

    /**
     * What samples are made and how.
     *
     * @param files whether the files as they were at the end of the training commits are samples
     * @param commits whether commits are
     * @param chunks whether the changed functions are, to be filled in
     * @param contextLength in tokens; no document is longer
     * @param metadata probability that a document names the repository and its paths
     * @param fimDocuments probability that some files of a document are cut for filling in
     * @param fimFiles probability for each file of such a document
     * @param suffixFirst share of cuts that have the suffix before the prefix
     * @param wholeBase probability that a commit shows the whole file before the change
     * @param baseLines lines around the change that it shows otherwise, at most
     * @param signatures of other files that a chunk is shown with, at most
     * @param family whose format is wanted; {@code auto} for what the vocabulary has tokens for
     */
    public record Samples(
            boolean files,
            boolean commits,
            boolean chunks,
            int contextLength,
            double metadata,
            double fimDocuments,
            double fimFiles,
            double suffixFirst,
            Span span,
            Order order,
            double wholeBase,
            int baseLines,
            int signatures,
            String family) {}

    /** Further files, in schemas that other programs read. */
    public enum Export {
        NONE,
        SEQUENCES,
        ENHANCED,
        BOTH
    }
}
