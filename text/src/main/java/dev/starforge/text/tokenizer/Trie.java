package dev.starforge.text.tokenizer;

import dev.starforge.text.bpe.LongMap;
import java.util.Arrays;
import java.util.BitSet;

/** Finds the longest of many strings at a position, independent of their number. */
final class Trie {
    static final long NONE = -1;

    private final LongMap edges = new LongMap(64);
    private final BitSet firsts = new BitSet();
    private int[] ids = {-1};
    private int nodes = 1;

    /** Adds a string; of two equal strings, the first is kept. */
    void add(String text, int id) {
        int node = 0;
        for (int i = 0; i < text.length(); i++) {
            long edge = edge(node, text.charAt(i));
            long next = edges.get(edge);
            if (next == LongMap.NONE) {
                next = nodes++;
                edges.put(edge, next);
                if (nodes > ids.length) {
                    ids = Arrays.copyOf(ids, 2 * nodes);
                    Arrays.fill(ids, nodes - 1, ids.length, -1);
                }
            }
            node = (int) next;
        }
        if (ids[node] < 0) {
            ids[node] = id;
            firsts.set(text.charAt(0));
        }
    }

    boolean isEmpty() {
        return firsts.isEmpty();
    }

    /** Returns the longest string at {@code from} as a pair of end and id, or {@link #NONE}. */
    long match(String text, int from) {
        if (!firsts.get(text.charAt(from))) {
            return NONE;
        }
        long found = NONE;
        int node = 0;
        for (int i = from; i < text.length(); i++) {
            long next = edges.get(edge(node, text.charAt(i)));
            if (next == LongMap.NONE) {
                break;
            }
            node = (int) next;
            if (ids[node] >= 0) {
                found = LongMap.pair(i + 1, ids[node]);
            }
        }
        return found;
    }

    private static long edge(int node, char c) {
        return (long) node << 16 | c;
    }
}
