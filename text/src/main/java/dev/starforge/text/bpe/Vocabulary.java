package dev.starforge.text.bpe;

import dev.starforge.text.TokenizerException;
import java.nio.file.Path;
import java.util.Collection;

/** Maps ids to tokens and tokens to ids. Lookups take a span of characters, so encoding allocates no strings. */
public final class Vocabulary {
    /** Maximum number of unused ids, since each costs memory and the file is untrusted. */
    private static final int MAX_HOLES = 1 << 20;

    private static final int LONGEST_TOKEN = 1 << 16;

    private final String[] tokens;
    private final int[] slots;
    private final int mask;
    private final int longest;

    /** A token, its id, and its position in the file. */
    public record Entry(String text, int id, String place) {}

    public Vocabulary(Path file, Collection<Entry> entries) {
        int size = 0;
        int longest = 0;
        for (Entry entry : entries) {
            int limit = entries.size() + MAX_HOLES;
            if (entry.id < 0 || entry.id >= limit) {
                throw new TokenizerException(file, entry.place + ": id " + entry.id + " is outside 0.." + (limit - 1));
            }
            if (entry.text.length() > LONGEST_TOKEN) {
                throw new TokenizerException(
                        file,
                        entry.place + ": a token of " + entry.text.length() + " characters, expected at most "
                                + LONGEST_TOKEN);
            }
            size = Math.max(size, entry.id + 1);
            longest = Math.max(longest, entry.text.length());
        }
        this.longest = longest;
        tokens = new String[size];
        slots = new int[Integer.highestOneBit(Math.max(8, entries.size())) * 4];
        mask = slots.length - 1;
        for (Entry entry : entries) {
            if (tokens[entry.id] != null) {
                throw new TokenizerException(
                        file, entry.place + ": id " + entry.id + " already belongs to " + tokens[entry.id]);
            }
            char[] text = entry.text.toCharArray();
            int slot = slot(text, 0, text.length);
            if (slots[slot] != 0) {
                throw new TokenizerException(
                        file, entry.place + ": token " + entry.text + " already has id " + (slots[slot] - 1));
            }
            tokens[entry.id] = entry.text;
            slots[slot] = entry.id + 1;
        }
    }

    /** One more than the highest id. */
    public int size() {
        return tokens.length;
    }

    /** Length of the longest token. */
    int longest() {
        return longest;
    }

    public boolean has(int id) {
        return id >= 0 && id < tokens.length && tokens[id] != null;
    }

    public String text(int id) {
        return tokens[id];
    }

    /** Returns the id of a token, or -1. */
    public int id(String text) {
        return id(text.toCharArray(), 0, text.length());
    }

    /** Returns the id of a span, or -1. */
    int id(char[] text, int from, int to) {
        return slots[slot(text, from, to)] - 1;
    }

    /** Returns the slot of the span, or the free slot to insert it. */
    private int slot(char[] text, int from, int to) {
        int slot = hash(text, from, to) & mask;
        while (slots[slot] != 0 && !same(tokens[slots[slot] - 1], text, from, to)) {
            slot = slot + 1 & mask;
        }
        return slot;
    }

    private static boolean same(String token, char[] text, int from, int to) {
        if (token.length() != to - from) {
            return false;
        }
        for (int i = 0; i < token.length(); i++) {
            if (token.charAt(i) != text[from + i]) {
                return false;
            }
        }
        return true;
    }

    static int hash(char[] text, int from, int to) {
        long hash = to - from;
        for (int i = from; i < to; i++) {
            hash = (hash ^ text[i]) * 0x9E3779B97F4A7C15L;
        }
        return (int) (hash >>> 32 ^ hash >>> 16);
    }
}
