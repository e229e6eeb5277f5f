package dev.starforge.text.secrets;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A stretch of a line that must not be learned. */
public record SecretFinding(int from, int to, SecretRule rule) {
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
    static final class FindingSet {
        private final TreeMap<Integer, SecretFinding> byStart = new TreeMap<>();

        void add(int from, int to, SecretRule rule) {
            Map.Entry<Integer, SecretFinding> before = byStart.lowerEntry(to);
            if (from < to && (before == null || before.getValue().to <= from)) {
                byStart.put(from, new SecretFinding(from, to, rule));
            }
        }

        List<SecretFinding> inOrder() {
            return List.copyOf(byStart.values());
        }
    }
}
