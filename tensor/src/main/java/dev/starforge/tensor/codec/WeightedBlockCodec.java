package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/** A codec whose encoder can weight the error of each column of a row, by an importance matrix. */
interface WeightedBlockCodec extends BlockCodec {
    /**
     * Encodes a whole row.
     *
     * @param importance the weight of the squared error of each column
     */
    void encode(float[] in, int at, float[] importance, ByteBuffer out, int to);
}
