package dev.starforge.text.secrets;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Map;

/**
 * Finds which groups of keywords occur in a byte range, ignoring case: the Aho-Corasick automaton (1975), with one
 * table lookup per byte.
 */
final class KeywordMatcher {
    private static final int CLASSES = 64;

    private final byte[] classes = new byte[256];
    private final short[] next;
    private final int[] groups;

    /** @param keywords ASCII keywords with the bit mask of their groups */
    KeywordMatcher(Map<String, Integer> keywords) {
        int states = 1 + keywords.keySet().stream().mapToInt(String::length).sum();
        next = new short[states * CLASSES];
        groups = new int[states];
        Arrays.fill(next, (short) -1);
        int classCount = 1;
        int count = 1;
        for (Map.Entry<String, Integer> keyword : keywords.entrySet()) {
            int state = 0;
            for (char c : keyword.getKey().toCharArray()) {
                int lower = Character.toLowerCase(c);
                if (classes[lower] == 0) {
                    classes[lower] = (byte) classCount++;
                    classes[Character.toUpperCase(c)] = classes[lower];
                }
                int edge = state * CLASSES + classes[lower];
                if (next[edge] < 0) {
                    next[edge] = (short) count++;
                }
                state = next[edge];
            }
            groups[state] |= keyword.getValue();
        }
        if (classCount > CLASSES) {
            throw new IllegalArgumentException("keywords: " + classCount + " different characters, at most " + CLASSES);
        }
        buildFailureLinks();
    }

    /** Breadth-first, so the state of the longest proper suffix is complete before it is used. */
    private void buildFailureLinks() {
        int[] suffix = new int[groups.length];
        ArrayDeque<Integer> queue = new ArrayDeque<>();
        for (int c = 0; c < CLASSES; c++) {
            if (next[c] > 0) {
                queue.add((int) next[c]);
            } else {
                next[c] = 0;
            }
        }
        while (!queue.isEmpty()) {
            int state = queue.remove();
            groups[state] |= groups[suffix[state]];
            for (int c = 0; c < CLASSES; c++) {
                int edge = state * CLASSES + c;
                short fallen = next[suffix[state] * CLASSES + c];
                if (next[edge] < 0) {
                    next[edge] = fallen;
                } else {
                    suffix[next[edge]] = fallen;
                    queue.add((int) next[edge]);
                }
            }
        }
    }

    /** Returns the state after one more byte; 0 is the initial state. */
    int next(int state, byte b) {
        return next[state * CLASSES + classes[b & 0xFF]];
    }

    /** Returns the groups of the keywords that end in a state. */
    int groups(int state) {
        return groups[state];
    }
}
