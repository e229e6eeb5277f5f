package dev.starforge.tensor;

/** How one element is stored. Arithmetic is float32 whatever the storage; the 16-bit types are for weights and caches. */
public enum DType {
    F32(4),
    F16(2),
    BF16(2),
    I32(4);

    private final int bytes;

    DType(int bytes) {
        this.bytes = bytes;
    }

    public int bytes() {
        return bytes;
    }

    public boolean isFloat() {
        return this != I32;
    }

    /** The 16-bit pattern of a float in this type, rounded to nearest even. */
    public short narrow(float value) {
        return switch (this) {
            case F16 -> Float.floatToFloat16(value);
            case BF16 -> {
                int bits = Float.floatToRawIntBits(value);
                boolean nan = value != value;
                yield (short) (nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
            }
            case F32, I32 -> throw new ShapeException("narrow: " + this + " is not a 16-bit float");
        };
    }

    /** The float a 16-bit pattern of this type stands for; exact. */
    public float widen(short bits) {
        return switch (this) {
            case F16 -> Float.float16ToFloat(bits);
            case BF16 -> Float.intBitsToFloat(bits << 16);
            case F32, I32 -> throw new ShapeException("widen: " + this + " is not a 16-bit float");
        };
    }
}
