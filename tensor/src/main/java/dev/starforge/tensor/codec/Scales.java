package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** The floating-point numbers in the blocks of a file. Kernels count on finite ones; a damaged file may have others. */
public final class Scales {
    private static final int HALF = 0x7c00;
    private static final int SINGLE = 0x7f80;

    private Scales() {}

    /** Throws if a block of a quantized type has a scale that is infinite or not a number. */
    public static void requireFinite(DType type, ByteBuffer blocks) {
        ByteBuffer in = blocks.slice().order(ByteOrder.LITTLE_ENDIAN);
        int each = type.blockBytes();
        switch (type) {
            case Q4_0, Q5_0, Q8_0 -> require(type, in, each, 0, 1, HALF);
            case Q4_1, Q5_1, Q4_K, Q5_K -> require(type, in, each, 0, 2, HALF);
            case Q2_K -> require(type, in, each, each - 4, 2, HALF);
            case Q3_K, Q6_K -> require(type, in, each, each - 2, 1, HALF);
            case NF4 -> require(type, in, each, 2, 1, SINGLE); // the upper half of a float
            default -> {} // MXFP4 has exponents alone; the others are no blocks
        }
    }

    private static void require(DType type, ByteBuffer in, int each, int at, int count, int full) {
        for (int block = 0; block < in.limit(); block += each) {
            for (int i = 0; i < count; i++) {
                if ((in.getShort(block + at + 2 * i) & full) == full) {
                    throw new TensorException(
                            "block " + block / each + " of " + type + " has a scale that is infinite or not a number");
                }
            }
        }
    }
}
