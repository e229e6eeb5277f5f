package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/** Turns consecutive blocks into floats and back. The buffer is little-endian, and all ranges have been checked. */
interface BlockCodec {
    void decode(ByteBuffer in, int from, float[] out, int at, int blocks);

    void encode(float[] in, int at, ByteBuffer out, int to, int blocks);
}
