package dev.starforge.text.fim;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Stop strings for the middle before a suffix. A model that misses the end of the middle goes on with the suffix, which
 * the editor already has. So the middle ends before the rest of the cursor's line, and before the lines that follow it:
 * as many as make an accidental match unlikely. A middle of several lines may itself end lines with a short rest such as
 * {@code );}, so after its first line a short rest counts only with the next line.
 *
 * @param strings stop strings, at most two of at most 128 characters; none if the suffix is too short to tell
 * @param firstLine the stop string that ends only the first line of the middle, if there is one
 */
public record SuffixStops(List<String> strings, List<String> firstLine) {
    public static final SuffixStops NONE = new SuffixStops(List.of(), List.of());

    private static final int MAX_LENGTH = 128;
    private static final int MAX_LINES = 3;
    private static final int ENOUGH_LETTERS = 6;
    private static final int SHORTEST_REST = 2;

    /** Rests of one character that differ from what a middle may contain; a bracket may close one that the middle has opened. */
    private static final List<String> SEPARATORS = List.of(";", ",", ":");

    public SuffixStops {
        strings = List.copyOf(strings);
        firstLine = List.copyOf(firstLine);
    }

    public static SuffixStops of(String suffix) {
        List<String> stops = new ArrayList<>();
        List<String> firstLine = new ArrayList<>();
        int end = suffix.indexOf('\n');
        String rest = (end < 0 ? suffix : suffix.substring(0, end)).stripTrailing();
        String after = end < 0 ? "" : suffix.substring(end + 1);
        if (letters(rest) >= ENOUGH_LETTERS) {
            add(rest + "\n", stops);
        } else if (rest.strip().length() >= SHORTEST_REST || SEPARATORS.contains(rest.strip())) {
            add(rest + "\n", firstLine);
            nextLine(after).ifPresent(next -> add(rest + "\n" + next, stops));
        }
        following(after, stops);
        return new SuffixStops(stops, firstLine);
    }

    /** The next line that is not blank, with the blank lines before it. */
    private static Optional<String> nextLine(String text) {
        int from = 0;
        while (from < text.length()) {
            int end = text.indexOf('\n', from);
            int to = end < 0 ? text.length() : end;
            if (!text.substring(from, to).isBlank()) {
                return Optional.of(text.substring(0, to) + "\n");
            }
            from = to + 1;
        }
        return Optional.empty();
    }

    private static long letters(CharSequence text) {
        return text.chars().filter(Character::isLetterOrDigit).count();
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
            if (letters(marker) >= ENOUGH_LETTERS || lines == MAX_LINES) {
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
