package dev.starforge.data.dataset.dedup;

import dev.starforge.data.DatasetException;
import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Finds duplicate texts. Equal texts are found by hash. Candidates for similar texts are found by locality-sensitive hashing:
 * one-permutation MinHash over word 5-grams (empty bins take the value of the next bin), looked up in bands. Candidates are
 * duplicates if the Jaccard index of their 5-grams is high enough, so random hashing never decides what is dropped.
 *
 * <p>Of a group the newest is kept, which decides before anything is split: if a copy of a newer text is in an older commit,
 * the older is dropped. The 5-grams are in a file; the heap holds about 350 bytes per text.
 */
public final class DuplicateFinder implements AutoCloseable {
    public static final int KEPT = -1;

    private static final int BANDS = 20;
    private static final int ROWS = 5;
    private static final int TRIES = 4;

    private final Path file;
    private final double similarity;
    private final DataOutputStream out;
    private long[] places = new long[1024];
    private long[] hashes = new long[1024];
    private int[] kinds = new int[1024];
    private int count;
    private long written;

    public DuplicateFinder(Path file, double similarity) {
        this.file = file;
        this.similarity = similarity;
        try {
            out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(file), 1 << 16));
        } catch (IOException failure) {
            throw new DatasetException(file, "cannot be written: " + failure.getMessage(), failure);
        }
    }

    /**
     * Adds a text, which must be at least as new as those before.
     *
     * @param kind texts of different kinds are not compared
     * @param grams its 5-grams; empty if only equal texts are duplicates of it
     */
    public int add(int kind, long hash, long[] grams) {
        if (count == places.length) {
            places = Arrays.copyOf(places, 2 * count);
            hashes = Arrays.copyOf(hashes, 2 * count);
            kinds = Arrays.copyOf(kinds, 2 * count);
        }
        try {
            out.writeInt(grams.length);
            for (long gram : grams) {
                out.writeLong(gram);
            }
        } catch (IOException failure) {
            throw new DatasetException(file, "cannot be written: " + failure.getMessage(), failure);
        }
        places[count] = written;
        written += 4 + 8L * grams.length;
        hashes[count] = hash;
        kinds[count] = kind;
        return count++;
    }

    /** For each text, {@link #KEPT} or the number of the newer text that it duplicates. */
    public int[] find() {
        int[] keeper = new int[count];
        Arrays.fill(keeper, KEPT);
        HashIndex exact = new HashIndex();
        HashIndex[] bands = new HashIndex[BANDS];
        Arrays.setAll(bands, band -> new HashIndex());
        try {
            out.flush();
            try (RandomAccessFile grams = new RandomAccessFile(file.toFile(), "r")) {
                FileChannel channel = grams.getChannel();
                for (int unit = count - 1; unit >= 0; unit--) {
                    long hash = WordHashes.mix(hashes[unit] + kinds[unit]);
                    int found = exact.get(hash);
                    int same =
                            found >= 0 && hashes[found] == hashes[unit] && kinds[found] == kinds[unit] ? found : KEPT;
                    long[] own = same >= 0 ? new long[0] : grams(channel, unit);
                    keeper[unit] = same >= 0 ? same : own.length == 0 ? KEPT : similar(channel, unit, own, bands);
                    if (keeper[unit] == KEPT) {
                        exact.put(hash, unit);
                    }
                }
            }
        } catch (IOException failure) {
            throw new DatasetException(file, "cannot be read: " + failure.getMessage(), failure);
        }
        return keeper;
    }

    private long[] grams(FileChannel channel, int unit) throws IOException {
        ByteBuffer size = ByteBuffer.allocate(4);
        channel.read(size, places[unit]);
        ByteBuffer bytes = ByteBuffer.allocate(8 * size.getInt(0));
        while (bytes.hasRemaining() && channel.read(bytes, places[unit] + 4 + bytes.position()) >= 0) {}
        LongBuffer longs = bytes.flip().asLongBuffer();
        long[] grams = new long[longs.remaining()];
        longs.get(grams);
        return grams;
    }

    private int similar(FileChannel channel, int unit, long[] own, HashIndex[] bands) throws IOException {
        long[] keys = keys(own);
        for (int band = 0; band < BANDS; band++) {
            long key = WordHashes.mix(keys[band] + kinds[unit]);
            for (int attempt = 0; attempt < TRIES; attempt++) {
                int other = bands[band].get(WordHashes.mix(key + attempt));
                if (other < 0) {
                    break;
                }
                if (jaccard(own, grams(channel, other)) >= similarity) {
                    return other;
                }
            }
        }
        for (int band = 0; band < BANDS; band++) {
            long key = WordHashes.mix(keys[band] + kinds[unit]);
            for (int attempt = 0; attempt < TRIES; attempt++) {
                if (bands[band].get(WordHashes.mix(key + attempt)) < 0) {
                    bands[band].put(WordHashes.mix(key + attempt), unit);
                    break;
                }
            }
        }
        return KEPT;
    }

    private static long[] keys(long[] grams) {
        int bins = BANDS * ROWS;
        long[] least = new long[bins];
        Arrays.fill(least, Long.MAX_VALUE);
        for (long gram : grams) {
            long mixed = WordHashes.mix(gram);
            int bin = (int) Math.floorMod(mixed, (long) bins);
            least[bin] = Math.min(least[bin], mixed >>> 8);
        }
        long[] full = least.clone();
        for (int bin = 0; bin < bins; bin++) {
            for (int step = 1; full[bin] == Long.MAX_VALUE && step < bins; step++) {
                long filled = least[(bin + step) % bins];
                full[bin] = filled == Long.MAX_VALUE ? filled : WordHashes.mix(filled + step) >>> 8;
            }
        }
        long[] keys = new long[BANDS];
        for (int band = 0; band < BANDS; band++) {
            long key = band;
            for (int row = 0; row < ROWS; row++) {
                key = WordHashes.mix(key + full[band * ROWS + row]);
            }
            keys[band] = key;
        }
        return keys;
    }

    static double jaccard(long[] one, long[] other) {
        int common = 0;
        for (int i = 0, j = 0; i < one.length && j < other.length; ) {
            if (one[i] == other[j]) {
                common++;
                i++;
                j++;
            } else if (one[i] < other[j]) {
                i++;
            } else {
                j++;
            }
        }
        return (double) common / (one.length + other.length - common);
    }

    @Override
    public void close() {
        try {
            out.close();
        } catch (IOException failure) {
            throw new DatasetException(file, "cannot be written: " + failure.getMessage(), failure);
        }
    }

    /** A hash table from hashes to numbers, without boxing. It keeps half of each hash; callers verify the result. */
    private static final class HashIndex {
        private int[] keys = new int[1024];
        private int[] values = new int[1024];
        private int size;

        int get(long hash) {
            int slot = slot(key(hash));
            return keys[slot] == 0 ? -1 : values[slot];
        }

        void put(long hash, int value) {
            if (3 * ++size > 2 * keys.length) {
                int[] oldKeys = keys;
                int[] oldValues = values;
                keys = new int[2 * oldKeys.length];
                values = new int[keys.length];
                for (int i = 0; i < oldKeys.length; i++) {
                    if (oldKeys[i] != 0) {
                        set(oldKeys[i], oldValues[i]);
                    }
                }
            }
            set(key(hash), value);
        }

        private void set(int key, int value) {
            int slot = slot(key);
            keys[slot] = key;
            values[slot] = value;
        }

        private static int key(long hash) {
            return Math.max(1, (int) (hash >>> 33));
        }

        private int slot(int key) {
            int slot = key * 0x9E3779B9 >>> 7 & keys.length - 1;
            while (keys[slot] != 0 && keys[slot] != key) {
                slot = slot + 1 & keys.length - 1;
            }
            return slot;
        }
    }
}
