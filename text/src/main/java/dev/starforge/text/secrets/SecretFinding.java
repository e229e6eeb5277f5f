package dev.starforge.text.secrets;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A span of a line that contains a secret. */
public record SecretFinding(int from, int to, SecretRule rule) {
    private static final int MOST_SHOWN = 3;

    /** Masks a value for reports: keeps at most three and at most a quarter of its characters. */
    public static String masked(String value) {
        int shown = 0;
        while (shown < Math.min(MOST_SHOWN, value.length() / 4)
                && value.charAt(shown) > 0x20
                && value.charAt(shown) < 0x7F) {
            shown++;
        }
        return value.substring(0, shown) + "*****";
    }

    /** The findings of a line, added in order of confidence: spans that overlap an earlier one are ignored. */
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
