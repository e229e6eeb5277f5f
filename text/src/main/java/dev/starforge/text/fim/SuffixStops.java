package dev.starforge.text.fim;

import java.util.ArrayList;
import java.util.List;

/**
 * Stop strings for the middle before a suffix. A model that misses the end of the middle goes on with the suffix, which
 * the editor already has. So the middle ends at a line break after the rest of the cursor's line, and before the lines
 * that follow it: as many as make an accidental match unlikely.
 */
public final class SuffixStops {
    private static final int MAX_LENGTH = 128;
    private static final int MAX_LINES = 3;
    private static final int ENOUGH_LETTERS = 6;
    private static final int SHORTEST_REST = 2;

    /** Rests of one character that no middle ends a line with; a bracket may close one that the middle has opened. */
    private static final List<String> SEPARATORS = List.of(";", ",", ":");

    private SuffixStops() {}

    /** Returns the strings, at most two of at most 128 characters; none if the suffix is too short to tell. */
    public static List<String> of(String suffix) {
        List<String> stops = new ArrayList<>();
        int end = suffix.indexOf('\n');
        String rest = (end < 0 ? suffix : suffix.substring(0, end)).stripTrailing();
        if (rest.strip().length() >= SHORTEST_REST || SEPARATORS.contains(rest.strip())) {
            add(rest + "\n", stops);
        }
        if (end >= 0) {
            following(suffix.substring(end + 1), stops);
        }
        return stops;
    }

    private static void following(String text, List<String> stops) {
        StringBuilder marker = new StringBuilder("\n");
        int lines = 0;
        for (String line : text.split("\n")) {
            if (lines == 0 && line.isBlank()) {
                continue;
            }
            marker.append(line).append('\n');
            lines++;
            if (marker.chars().filter(Character::isLetterOrDigit).count() >= ENOUGH_LETTERS || lines == MAX_LINES) {
                add(marker.toString(), stops);
                return;
            }
        }
    }

    private static void add(String stop, List<String> stops) {
        int most = Math.min(stop.length(), MAX_LENGTH);
        boolean torn = most > 0 && Character.isHighSurrogate(stop.charAt(most - 1));
        stops.add(stop.substring(0, torn ? most - 1 : most));
    }
}
