package dev.starforge.data.git;

import java.util.Arrays;

/**
 * The share of a file that is in another, by git's measure: both are cut into lines of at most 64 bytes, and the bytes of
 * lines with equal hashes are counted. JGit's similarity differs from git's in 192 of 688 measured renames.
 */
final class ContentSimilarity {
    /** The score of equal files. */
    static final int MAX_SCORE = 60_000;

    private static final int PIECE = 64;
    private static final int BASE = 107_927;

    private ContentSimilarity() {}

    /** The pieces of a file, sorted: the hash in the high 32 bits, the number of bytes in the low ones. */
    static long[] pieces(byte[] content) {
        boolean text = !BlobReader.isBinary(content);
        int[] bytesOf = new int[1024];
        long[] keys = new long[1024];
        int used = 0;
        int low = 0;
        int high = 0;
        int length = 0;
        for (int i = 0; i < content.length; i++) {
            int c = content[i] & 0xFF;
            boolean last = i + 1 == content.length;
            if (text && c == '\r' && !last && content[i + 1] == '\n') {
                continue;
            }
            int before = low;
            low = low << 7 ^ high >>> 25;
            high = high << 7 ^ before >>> 25;
            low += c;
            if (++length < PIECE && c != '\n' && !last) {
                continue;
            }
            long hash = Integer.toUnsignedLong(low + high * 0x61) % BASE;
            if (2 * used > keys.length) {
                long[] oldKeys = keys;
                int[] oldBytes = bytesOf;
                keys = new long[2 * keys.length];
                bytesOf = new int[keys.length];
                for (int s = 0; s < oldKeys.length; s++) {
                    if (oldKeys[s] != 0) {
                        bytesOf[slot(keys, oldKeys[s])] = oldBytes[s];
                    }
                }
            }
            int before2 = bytesOf[slot(keys, hash + 1)];
            used += before2 == 0 ? 1 : 0;
            bytesOf[slot(keys, hash + 1)] = before2 + length;
            length = 0;
            low = 0;
            high = 0;
        }
        long[] pieces = new long[used];
        int size = 0;
        for (int s = 0; s < keys.length; s++) {
            if (keys[s] != 0) {
                pieces[size++] = keys[s] << 32 | bytesOf[s];
            }
        }
        Arrays.sort(pieces);
        return pieces;
    }

    private static int slot(long[] keys, long key) {
        int slot = (int) (key * 0x9E3779B97F4A7C15L >>> 40) & keys.length - 1;
        while (keys[slot] != 0 && keys[slot] != key) {
            slot = slot + 1 & keys.length - 1;
        }
        keys[slot] = key;
        return slot;
    }

    /** The number of bytes of the first file that are in the second. */
    static long common(long[] from, long[] to) {
        long common = 0;
        for (int i = 0, j = 0; i < from.length && j < to.length; ) {
            long left = from[i] >>> 32;
            long right = to[j] >>> 32;
            if (left == right) {
                common += Math.min((int) from[i++], (int) to[j++]);
            } else if (left < right) {
                i++;
            } else {
                j++;
            }
        }
        return common;
    }
}
