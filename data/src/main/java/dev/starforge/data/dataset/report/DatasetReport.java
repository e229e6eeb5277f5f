package dev.starforge.data.dataset.report;

import dev.starforge.data.Split;
import dev.starforge.data.dataset.redact.Redactions;
import dev.starforge.data.dataset.redact.Redactor;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The result of a build.
 *
 * @param generation 0 for the first; -1 if there was nothing new
 * @param dropped counts of files, chunks and documents that are not used, by reason
 * @param tombstones documents of older generations that are excluded from now on
 * @param parsed files that a grammar parsed
 * @param guessed files of a language with a grammar that were split without it
 * @param seconds duration of each stage
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

    /** The result if there are no new commits. */
    public static DatasetReport unchanged(String family, Map<String, Double> seconds) {
        Map<Split, SplitCount> none = new EnumMap<>(Split.class);
        for (Split split : Split.values()) {
            none.put(split, new SplitCount(0, 0, 0, 0));
        }
        RedactionCounts redacted = new RedactionCounts(0, 0, 0, Map.of(), List.of());
        return new DatasetReport(
                -1, 0, 0, 0, 0, 0, Map.of(), Map.of(), none, 0, 0, 0, 0, 0, redacted, Map.of(), family, seconds);
    }

    /**
     * Size of a split.
     *
     * @param lossTokens tokens that count in the loss; the others are context
     */
    public record SplitCount(int documents, long tokens, long lossTokens, int commits) {}

    /**
     * How many values were replaced by placeholders.
     *
     * @param rules the counts by the rule that found the value
     */
    public record RedactionCounts(
            long keys, long passwords, long emails, Map<String, Long> rules, List<MaskedExample> examples) {
        public static RedactionCounts of(Redactions redactions) {
            Map<String, Long> rules = new TreeMap<>();
            redactions.counts().forEach((rule, count) -> rules.put(rule.label(), count));
            List<MaskedExample> examples = redactions.examples().stream()
                    .sorted(Comparator.comparing(Redactions.MaskedValue::rule))
                    .map(value -> new MaskedExample(value.rule().label(), value.masked(), value.path(), value.line()))
                    .toList();
            return new RedactionCounts(
                    redactions.of(Redactor.KEY),
                    redactions.of(Redactor.PASSWORD),
                    redactions.of(Redactor.EMAIL),
                    rules,
                    examples);
        }
    }

    /** A redacted value: its first characters, at most a quarter of it, and its first position. */
    public record MaskedExample(String rule, String masked, String path, int line) {}
}
