package dev.starforge.model.generate;

import dev.starforge.model.generate.GenerationException.Violation;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Matches stop strings in streamed text, independent of token boundaries. Text is held back while it may be the beginning of
 * a stop string; the stop string itself is never returned. The first stop string to be complete ends the text; if several are
 * complete at the same character, the longest one. So the result does not depend on how the text is split into pieces.
 *
 * <p>Each stop string has a matching automaton (Knuth, Morris and Pratt 1977). Its state is the length of the longest prefix
 * of the stop string that the text ends with; the largest state is the number of characters to hold back. An instance serves
 * one sequence and is not thread-safe.
 */
public final class StopStrings {
    public static final int MAX_STRINGS = 16;
    public static final int MAX_LENGTH = 128;

    private final String[] strings;
    private final int[][] fallbacks;
    private final int[] states;
    private final StringBuilder held = new StringBuilder();
    private final int anywhere;
    private int active;
    private Optional<String> matched = Optional.empty();

    public StopStrings(List<String> strings) {
        this(strings, List.of());
    }

    /** @param firstLine further stop strings, which end the text only up to its first line break */
    public StopStrings(List<String> strings, List<String> firstLine) {
        check(strings);
        check(firstLine);
        this.strings = Stream.concat(strings.stream(), firstLine.stream()).toArray(String[]::new);
        anywhere = strings.size();
        active = this.strings.length;
        states = new int[this.strings.length];
        fallbacks = new int[this.strings.length][];
        for (int i = 0; i < states.length; i++) {
            fallbacks[i] = fallbacks(this.strings[i]);
        }
    }

    private static void check(List<String> strings) {
        List<Violation> wrong = new ArrayList<>();
        if (strings.size() > MAX_STRINGS) {
            wrong.add(new Violation("stop", "at most " + MAX_STRINGS + " strings", Integer.toString(strings.size())));
        }
        for (String string : strings) {
            int length = string.codePointCount(0, string.length());
            if (length == 0 || length > MAX_LENGTH) {
                wrong.add(new Violation("stop", "strings of 1 to " + MAX_LENGTH + " characters", "one of " + length));
            } else if (string.codePoints()
                    .anyMatch(c -> c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE)) {
                wrong.add(new Violation("stop", "whole characters", "half a surrogate pair"));
            }
        }
        if (!wrong.isEmpty()) {
            throw new GenerationException(wrong);
        }
    }

    /** The failure function: for each matched prefix, the length of its longest proper suffix that is a prefix too. */
    private static int[] fallbacks(String string) {
        int[] table = new int[string.length() + 1];
        int state = 0;
        for (int i = 1; i < string.length(); i++) {
            while (state > 0 && string.charAt(i) != string.charAt(state)) {
                state = table[state];
            }
            if (string.charAt(i) == string.charAt(state)) {
                state++;
            }
            table[i + 1] = state;
        }
        return table;
    }

    /**
     * Consumes the next piece of text and returns the text that cannot be part of a stop string any more.
     *
     * @throws IllegalStateException after a match
     */
    public String push(String piece) {
        if (matched.isPresent()) {
            throw new IllegalStateException("push: a stop string has ended the text");
        }
        for (int i = 0; i < piece.length(); i++) {
            char c = piece.charAt(i);
            held.append(c);
            Optional<String> complete = advance(c);
            if (complete.isPresent()) {
                matched = complete;
                held.setLength(held.length() - complete.get().length());
                return take(held.length());
            }
            if (c == '\n') {
                active = anywhere;
                Arrays.fill(states, anywhere, states.length, 0);
            }
        }
        int most = 0;
        for (int state : states) {
            most = Math.max(most, state);
        }
        return take(held.length() - most);
    }

    /** Returns the text that is still held back, when generation ended for another reason; empty after a match. */
    public String finish() {
        return take(held.length());
    }

    /** Returns the stop string that ended the text, if one did. */
    public Optional<String> matched() {
        return matched;
    }

    private Optional<String> advance(char c) {
        int longest = -1;
        for (int i = 0; i < active; i++) {
            String string = strings[i];
            int state = states[i];
            while (state > 0 && string.charAt(state) != c) {
                state = fallbacks[i][state];
            }
            if (string.charAt(state) == c) {
                state++;
            }
            states[i] = state;
            if (state == string.length() && (longest < 0 || string.length() > strings[longest].length())) {
                longest = i;
            }
        }
        return longest < 0 ? Optional.empty() : Optional.of(strings[longest]);
    }

    private String take(int length) {
        String text = held.substring(0, length);
        held.delete(0, length);
        return text;
    }
}
