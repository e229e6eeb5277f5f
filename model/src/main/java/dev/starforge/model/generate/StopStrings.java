package dev.starforge.model.generate;

import dev.starforge.model.generate.GenerationException.Violation;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Ends a text at the first of some strings, wherever the borders of its tokens are. Text goes in as it is decoded and
 * comes out when it can no longer be part of a stop string; the stop string itself never does. Of several, the one that
 * is complete first ends the text, the longest if several are complete at once: so the outcome does not depend on how the
 * text was cut into pieces.
 *
 * <p>Each string is followed by its own automaton (Knuth, Morris and Pratt 1977), whose state is how much of the string
 * the text so far ends with; the largest of these states is what must be held back. For one thread and one text.
 */
public final class StopStrings {
    public static final int MAX_STRINGS = 16;
    public static final int MAX_LENGTH = 128;

    private final String[] strings;
    private final int[][] fallbacks;
    private final int[] states;
    private final StringBuilder held = new StringBuilder();
    private Optional<String> matched = Optional.empty();

    public StopStrings(List<String> strings) {
        check(strings);
        this.strings = strings.toArray(String[]::new);
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

    /** For each length of a matched prefix, the longest shorter one that it ends with. */
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

    /** Takes the next piece of text; returns what is now certain. After a match there is no more text to take. */
    public String push(String piece) {
        if (matched.isPresent()) {
            throw new IllegalStateException("push: the text has ended at a stop string");
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
        }
        int most = 0;
        for (int state : states) {
            most = Math.max(most, state);
        }
        return take(held.length() - most);
    }

    /** The rest of a text that ended for another reason; empty after a match. */
    public String finish() {
        return take(held.length());
    }

    /** The stop string that ended the text. */
    public Optional<String> matched() {
        return matched;
    }

    private Optional<String> advance(char c) {
        int longest = -1;
        for (int i = 0; i < strings.length; i++) {
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
