package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/**
 * Decodes consecutive blocks to floats and encodes them. The buffer is little-endian, and the caller has checked all
 * ranges.
 */
interface BlockCodec {
    void decode(ByteBuffer in, int from, float[] out, int at, int blocks);

    void encode(float[] in, int at, ByteBuffer out, int to, int blocks);
}
