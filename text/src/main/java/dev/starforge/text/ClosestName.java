package dev.starforge.text;

import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;

/** Finds the known name closest to a mistyped one by Levenshtein distance. Used for commands, flags and config keys. */
public final class ClosestName {
    private static final int SHORTEST_WORD = 3;

    private ClosestName() {}

    /**
     * Returns the closest of some names of the form {@code section.key}, if one is close. Names are compared by their
     * last part, so the right key in the wrong section is close, and so is a key with more words than the given one.
     * Among equally close names, the one with the closest section is chosen.
     */
    public static Optional<String> key(String given, Collection<String> known) {
        return known.stream()
                .filter(name -> cost(given, name).isPresent())
                .min(Comparator.comparingInt((String name) -> cost(given, name).orElseThrow())
                        .thenComparingInt(
                                name -> section(given).isEmpty() ? 0 : distance(section(given), section(name))));
    }

    /**
     * How far a key is from the given one; empty if it is not close: more than a third of the characters differ, and it
     * lacks a word of the given one.
     */
    private static OptionalInt cost(String given, String name) {
        int elsewhere = section(given).equals(section(name)) ? 0 : 1;
        int edits = distance(last(given), last(name));
        if (3 * edits <= Math.min(last(given).length(), last(name).length())) {
            return OptionalInt.of(2 * edits + elsewhere);
        }
        List<String> words = List.of(last(name).split("_"));
        boolean hasWords = last(given).length() >= SHORTEST_WORD
                && words.containsAll(List.of(last(given).split("_")));
        return hasWords ? OptionalInt.of(last(name).length() + words.size() + elsewhere) : OptionalInt.empty();
    }

    /** Returns the closest name if at least half of the given one matches it. */
    public static Optional<String> name(String given, Collection<String> known) {
        return known.stream()
                .min(Comparator.comparingInt(name -> distance(given, name)))
                .filter(name -> 2 * distance(given, name) <= Math.min(given.length(), name.length()));
    }

    private static String section(String path) {
        return path.substring(0, Math.max(0, path.lastIndexOf('.')));
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
