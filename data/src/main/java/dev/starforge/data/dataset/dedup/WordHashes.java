package dev.starforge.data.dataset.dedup;

import java.util.Arrays;
import java.util.function.LongConsumer;

/**
 * The hashes of a text's words. A word is a run of letters, digits and underscores; layout and punctuation between words
 * are ignored, since copies often change them.
 */
public final class WordHashes {
    private static final int GRAM = 5;
    private static final long PRIME = 0x9E3779B97F4A7C15L;

    private final long[] hashes;
    private final int[] starts;
    private final int[] ends;

    private WordHashes(long[] hashes, int[] starts, int[] ends) {
        this.hashes = hashes;
        this.starts = starts;
        this.ends = ends;
    }

    public static WordHashes of(CharSequence text) {
        long[] hashes = new long[64];
        int[] starts = new int[64];
        int[] ends = new int[64];
        int count = 0;
        for (int at = 0; at < text.length(); ) {
            if (!isWord(text.charAt(at))) {
                at++;
                continue;
            }
            int begin = at;
            long hash = 1;
            while (at < text.length() && isWord(text.charAt(at))) {
                hash = (hash ^ text.charAt(at++)) * PRIME;
            }
            if (count == hashes.length) {
                hashes = Arrays.copyOf(hashes, 2 * count);
                starts = Arrays.copyOf(starts, 2 * count);
                ends = Arrays.copyOf(ends, 2 * count);
            }
            hashes[count] = mix(hash);
            starts[count] = begin;
            ends[count++] = at;
        }
        return new WordHashes(Arrays.copyOf(hashes, count), Arrays.copyOf(starts, count), Arrays.copyOf(ends, count));
    }

    private static boolean isWord(char c) {
        return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c > 127;
    }

    public static long mix(long hash) {
        long mixed = (hash ^ hash >>> 32) * PRIME;
        return mixed ^ mixed >>> 29;
    }

    public int count() {
        return hashes.length;
    }

    /** The index in the text at which a word begins. */
    public int start(int word) {
        return starts[word];
    }

    public int end(int word) {
        return ends[word];
    }

    /** A hash of all words in order. */
    public long hash() {
        long hash = hashes.length;
        for (long word : hashes) {
            hash = mix(hash ^ word);
        }
        return hash;
    }

    /** The sorted distinct hashes of all 5-grams of words; a shorter text has one hash. */
    public long[] grams() {
        if (hashes.length < GRAM) {
            return new long[] {hash()};
        }
        long[] grams = new long[hashes.length - GRAM + 1];
        for (int i = 0; i < grams.length; i++) {
            long hash = 0;
            for (int k = i; k < i + GRAM; k++) {
                hash = mix(hash + hashes[k]);
            }
            grams[i] = hash;
        }
        Arrays.sort(grams);
        int distinct = 0;
        for (int i = 0; i < grams.length; i++) {
            if (i == 0 || grams[i] != grams[i - 1]) {
                grams[distinct++] = grams[i];
            }
        }
        return Arrays.copyOf(grams, distinct);
    }

    /** Passes the rolling hash of every window of {@code length} words; a shorter text has none. */
    public void windows(int length, LongConsumer each) {
        long power = 1;
        for (int i = 0; i < length; i++) {
            power *= PRIME;
        }
        long hash = 0;
        for (int i = 0; i < hashes.length; i++) {
            hash = hash * PRIME + hashes[i];
            if (i >= length) {
                hash -= power * hashes[i - length];
            }
            if (i >= length - 1) {
                each.accept(mix(hash));
            }
        }
    }
}
