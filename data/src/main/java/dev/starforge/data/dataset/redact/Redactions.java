package dev.starforge.data.dataset.redact;

import dev.starforge.text.secrets.SecretRule;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/** Counts of redacted values by rule, with a few masked examples of each; never the values. */
public record Redactions(Map<SecretRule, Long> counts, List<MaskedValue> examples) {
    public static final Redactions NONE = new Redactions(Map.of(), List.of());

    private static final int MAX_EXAMPLES = 10;

    /**
     * A replaced value.
     *
     * @param masked the first characters, at most a quarter of the value, and asterisks
     */
    public record MaskedValue(SecretRule rule, String masked, String path, int line) {
        private boolean isLike(MaskedValue other) {
            return rule == other.rule && masked.equals(other.masked) && path.equals(other.path);
        }
    }

    public Redactions {
        counts = Collections.unmodifiableMap(counts);
        examples = List.copyOf(examples);
    }

    public Redactions plus(Redactions other) {
        if (other.counts.isEmpty()) {
            return this;
        }
        Map<SecretRule, Long> sum = new EnumMap<>(SecretRule.class);
        sum.putAll(counts);
        other.counts.forEach((rule, count) -> sum.merge(rule, count, Long::sum));
        List<MaskedValue> all = new ArrayList<>(examples);
        other.examples.forEach(example -> add(all, example));
        return new Redactions(sum, all);
    }

    /** Adds an example unless its rule has enough, or one that looks the same. */
    static void add(List<MaskedValue> examples, MaskedValue example) {
        long same =
                examples.stream().filter(other -> other.rule == example.rule).count();
        if (same < MAX_EXAMPLES && examples.stream().noneMatch(example::isLike)) {
            examples.add(example);
        }
    }

    /** The number of values that were replaced by a placeholder. */
    public long of(String placeholder) {
        return counts.entrySet().stream()
                .filter(entry -> entry.getKey().placeholder().equals(placeholder))
                .mapToLong(Map.Entry::getValue)
                .sum();
    }

    long count() {
        return counts.values().stream().mapToLong(Long::longValue).sum();
    }
}
