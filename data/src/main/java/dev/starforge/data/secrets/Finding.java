package dev.starforge.data.secrets;

import java.util.ArrayList;
import java.util.List;

/** A stretch of a line that must not be learned. */
public record Finding(int from, int to, Rule rule) {
    private static final int MOST_SHOWN = 3;

    /** The first characters and stars, for a person who knows the file: at most three, and at most a quarter of the value. */
    public static String masked(String value) {
        int shown = 0;
        while (shown < Math.min(MOST_SHOWN, value.length() / 4)
                && value.charAt(shown) > 0x20
                && value.charAt(shown) < 0x7F) {
            shown++;
        }
        return value.substring(0, shown) + "*****";
    }

    /** The findings of a line, the surest first: what overlaps an earlier one is not added. */
    static final class Set {
        private final List<Finding> findings = new ArrayList<>();

        void add(int from, int to, Rule rule) {
            if (from < to && findings.stream().noneMatch(other -> from < other.to && other.from < to)) {
                findings.add(new Finding(from, to, rule));
            }
        }

        List<Finding> inOrder() {
            findings.sort((a, b) -> Integer.compare(a.from, b.from));
            return findings;
        }
    }
}
