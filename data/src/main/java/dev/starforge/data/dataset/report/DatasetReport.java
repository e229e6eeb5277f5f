package dev.starforge.data.dataset.report;

import dev.starforge.data.Split;
import java.util.List;
import java.util.Map;

/**
 * What a run did.
 *
 * @param generation 0 for the first; -1 if there was nothing new
 * @param dropped files and chunks that were not used, by reason
 * @param tombstones documents of older generations that are no longer handed out
 * @param seconds of each stage
 */
public record DatasetReport(
        int generation,
        int commits,
        long files,
        long filesKept,
        long chunks,
        long chunksKept,
        Map<String, Long> dropped,
        Map<String, Long> languages,
        Map<Split, SplitCount> splits,
        int tombstones,
        int leakingDropped,
        int boilerplateWindows,
        int parsed,
        int guessed,
        RedactionCounts redacted,
        Map<String, String> licences,
        String family,
        Map<String, Double> seconds) {

    /** Size of a split. */
    public record SplitCount(int documents, long tokens, int commits) {}

    /**
     * How much was replaced by placeholders.
     *
     * @param rules the same by the rule that found it
     */
    public record RedactionCounts(
            long keys, long passwords, long emails, Map<String, Long> rules, List<MaskedExample> examples) {}

    /** A replaced value: the first characters, at most a quarter of it, and where it first stood. */
    public record MaskedExample(String rule, String masked, String path, int line) {}
}
