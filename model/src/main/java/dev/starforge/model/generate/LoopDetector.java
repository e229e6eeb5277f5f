package dev.starforge.model.generate;

/**
 * Notices that generated text repeats itself: its end consists of repetitions of one string. Greedy decoding of small
 * models often ends so. Three repetitions count, and at least 48 characters in total; without a letter or digit, such as in
 * a ruled line, 240. For each period up to 200 characters, it counts how many characters equal the one a period before. An
 * instance serves one sequence and is not thread-safe.
 */
public final class LoopDetector {
    private static final int LONGEST_PERIOD = 200;
    private static final int REPETITIONS = 3;
    private static final int SHORTEST = 48;
    private static final int SHORTEST_RULE = 240;

    private final StringBuilder text = new StringBuilder();
    private final int[] equal = new int[LONGEST_PERIOD + 1];
    private boolean looping;

    /** Adds a piece of text. Returns true once the text has ended in a loop. */
    public boolean push(String piece) {
        for (int i = 0; i < piece.length() && !looping; i++) {
            text.append(piece.charAt(i));
            advance(text.length() - 1);
        }
        return looping;
    }

    /** Returns true if the text ends in a loop. */
    public boolean isLooping() {
        return looping;
    }

    private void advance(int at) {
        for (int period = 1; period <= Math.min(LONGEST_PERIOD, at); period++) {
            boolean same = text.charAt(at) == text.charAt(at - period);
            equal[period] = same ? equal[period] + 1 : 0;
            int length = equal[period] + period;
            if (length >= REPETITIONS * period && length >= SHORTEST) {
                boolean words = text.substring(at + 1 - period).chars().anyMatch(Character::isLetterOrDigit);
                looping |= words || length >= SHORTEST_RULE;
            }
        }
    }
}
