package dev.starforge.text;

import java.util.Collection;
import java.util.Comparator;
import java.util.Optional;

/** Finds the known name closest to a mistyped one by Levenshtein distance. Used for commands, flags and config keys. */
public final class ClosestName {
    private ClosestName() {}

    /**
     * Returns the closest of some names of the form {@code section.key}. The right key in the wrong section is also
     * close.
     */
    public static String key(String given, Collection<String> known) {
        return known.stream()
                .min(Comparator.comparingInt(
                        name -> Math.min(distance(given, name), 1 + distance(last(given), last(name)))))
                .orElseThrow();
    }

    /** Returns the closest name if at least half of the given one matches it. */
    public static Optional<String> name(String given, Collection<String> known) {
        return known.stream()
                .min(Comparator.comparingInt(name -> distance(given, name)))
                .filter(name -> 2 * distance(given, name) <= Math.min(given.length(), name.length()));
    }

    private static String last(String path) {
        return path.substring(path.lastIndexOf('.') + 1);
    }

    /** The Levenshtein distance of two strings. */
    public static int distance(String a, String b) {
        int[] row = new int[b.length() + 1];
        for (int j = 0; j <= b.length(); j++) {
            row[j] = j;
        }
        for (int i = 1; i <= a.length(); i++) {
            int diagonal = row[0];
            row[0] = i;
            for (int j = 1; j <= b.length(); j++) {
                int above = row[j];
                int changed = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
                row[j] = Math.min(changed, 1 + Math.min(above, row[j - 1]));
                diagonal = above;
            }
        }
        return row[b.length()];
    }
}
