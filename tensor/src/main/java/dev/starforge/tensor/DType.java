package dev.starforge.tensor;

/**
 * How elements are stored. Arithmetic is float32 whatever the storage; the 16-bit types are for weights and caches, the
 * block types for weights alone. A block is so many neighbours of a row in so many bytes, with scales of their own; what
 * the bytes mean is told by {@code codec.BlockFormat}, which knows its type here. A plain type is a block of one.
 */
public enum DType {
    F32(1, 4),
    F16(1, 2),
    BF16(1, 2),
    I32(1, 4),
    Q4_0(32, 18),
    Q4_1(32, 20),
    Q5_0(32, 22),
    Q5_1(32, 24),
    Q8_0(32, 34),
    Q2_K(256, 84),
    Q3_K(256, 110),
    Q4_K(256, 144),
    Q5_K(256, 176),
    Q6_K(256, 210),
    MXFP4(32, 17),
    NF4(64, 36);

    private final int blockElements;
    private final int blockBytes;

    DType(int blockElements, int blockBytes) {
        this.blockElements = blockElements;
        this.blockBytes = blockBytes;
    }

    public int blockElements() {
        return blockElements;
    }

    public int blockBytes() {
        return blockBytes;
    }

    /** The bytes of one element; an element of a block has none of its own. */
    public int bytes() {
        if (isBlock()) {
            throw new ShapeException("bytes: one element of " + this + " has none of its own");
        }
        return blockBytes;
    }

    /** The bytes of so many elements, which must fill whole blocks. */
    public long bytes(long elements) {
        if (elements < 0 || elements % blockElements != 0) {
            throw new ShapeException(this + ": " + elements + " elements, expected a multiple of " + blockElements);
        }
        try {
            return Math.multiplyExact(elements / blockElements, (long) blockBytes);
        } catch (ArithmeticException overflow) {
            throw new ShapeException(this + ": " + elements + " elements take more bytes than 2^63");
        }
    }

    /** A plain float type: what an operation can write, and a cache can hold. */
    public boolean isFloat() {
        return this == F32 || this == F16 || this == BF16;
    }

    /** A quantized type: read by the few operations that say so, written by none. */
    public boolean isBlock() {
        return blockElements > 1;
    }

    /** A type that weights may have. */
    public boolean isWeight() {
        return isFloat() || isBlock();
    }

    /** The 16-bit pattern of a float in this type, rounded to nearest even. */
    public short narrow(float value) {
        return switch (this) {
            case F16 -> Float.floatToFloat16(value);
            case BF16 -> {
                int bits = Float.floatToRawIntBits(value);
                boolean nan = Float.isNaN(value);
                yield (short) (nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
            }
            default -> throw new ShapeException("narrow: " + this + " is not a 16-bit float");
        };
    }

    /** The float a 16-bit pattern of this type stands for; exact. */
    public float widen(short bits) {
        return switch (this) {
            case F16 -> Float.float16ToFloat(bits);
            case BF16 -> Float.intBitsToFloat(bits << 16);
            default -> throw new ShapeException("widen: " + this + " is not a 16-bit float");
        };
    }
}
