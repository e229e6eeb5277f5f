package dev.starforge.text.pretokenizer;

import java.util.Arrays;

/** The matches of a pattern and the gaps between them, as ordered spans that cover the input. */
public final class MatchSpans {
    private int[] starts = new int[16];
    private int[] ends = new int[16];
    private boolean[] matches = new boolean[16];
    private int size;

    void clear() {
        size = 0;
    }

    void add(int start, int end, boolean match) {
        if (size == starts.length) {
            starts = Arrays.copyOf(starts, 2 * size);
            ends = Arrays.copyOf(ends, 2 * size);
            matches = Arrays.copyOf(matches, 2 * size);
        }
        starts[size] = start;
        ends[size] = end;
        matches[size++] = match;
    }

    int size() {
        return size;
    }

    int start(int i) {
        return starts[i];
    }

    int end(int i) {
        return ends[i];
    }

    boolean match(int i) {
        return matches[i];
    }

    /** How matches are split from the text, as HF's {@code SplitDelimiterBehavior}. */
    public enum Behavior {
        ISOLATED,
        REMOVED,
        MERGED_WITH_PREVIOUS,
        MERGED_WITH_NEXT,
        CONTIGUOUS
    }

    /**
     * Emits the pre-tokens. A match merges with its neighbouring span unless that span is a match that already merged.
     */
    void emit(Behavior behavior, boolean invert, char[] text, int from, boolean first, PreTokenSink next) {
        for (int i = 0; i < size; ) {
            int last = i;
            switch (behavior) {
                case ISOLATED -> {}
                case REMOVED -> {
                    if (matches[i] != invert) {
                        i++;
                        continue;
                    }
                }
                case CONTIGUOUS -> {
                    while (last + 1 < size && matches[last + 1] == matches[i]) {
                        last++;
                    }
                }
                case MERGED_WITH_PREVIOUS -> {
                    if (matches[i] == invert && i + 1 < size && matches[i + 1] != invert) {
                        last++;
                    }
                }
                case MERGED_WITH_NEXT -> {
                    if (matches[i] != invert && i + 1 < size && matches[i + 1] == invert) {
                        last++;
                    }
                }
            }
            if (ends[last] > starts[i]) {
                next.preToken(text, starts[i], ends[last], first && starts[i] == from);
            }
            i = last + 1;
        }
    }
}
