package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;

/**
 * Position of the floating-point scales in a block. Kernels require finite scales; a damaged file may violate that.
 *
 * @param at the byte of the first 16-bit word that has an exponent
 * @param count number of such words
 * @param exponent the exponent bits, which are all set in an infinite or NaN value
 */
record BlockScales(int at, int count, int exponent) {
    /** No scale that could be infinite: plain floats, and MXFP4, whose scales are exponents only. */
    static final BlockScales NONE = new BlockScales(0, 0, 0);

    static BlockScales f16(int at, int count) {
        return new BlockScales(at, count, 0x7c00);
    }

    /** One float32; its upper 16 bits have the exponent. */
    static BlockScales f32(int at) {
        return new BlockScales(at + 2, 1, 0x7f80);
    }

    void requireFinite(DType type, ByteBuffer blocks) {
        for (int block = 0; block < blocks.limit() && count > 0; block += type.blockBytes()) {
            for (int i = 0; i < count; i++) {
                if ((blocks.getShort(block + at + 2 * i) & exponent) == exponent) {
                    throw new TensorException("block " + block / type.blockBytes() + " of " + type
                            + " has a scale that is infinite or not a number");
                }
            }
        }
    }
}
