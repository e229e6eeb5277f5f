package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/**
 * 256 two-bit values in 64 bytes, in the order of the K-quants Q2_K, Q3_K and Q6_K: each half of the block has 32
 * bytes, and byte i of a half holds its elements i, i + 32, i + 64 and i + 96 from the low bits up.
 */
final class KQuantTwoBits {
    private KQuantTwoBits() {}

    static int get(ByteBuffer in, int from, int i) {
        return in.get(from + i / 128 * 32 + i % 32) >> 2 * (i % 128 / 32) & 3;
    }

    /** Writes the low two bits of each value. */
    static void put(ByteBuffer out, int to, int[] values) {
        for (int i = 0; i < 64; i++) {
            int first = i / 32 * 128 + i % 32;
            int packed = 0;
            for (int lane = 0; lane < 4; lane++) {
                packed |= (values[first + 32 * lane] & 3) << 2 * lane;
            }
            out.put(to + i, (byte) packed);
        }
    }
}
