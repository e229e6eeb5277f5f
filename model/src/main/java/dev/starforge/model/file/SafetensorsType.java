package dev.starforge.model.file;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.codec.Fp8;
import java.nio.ByteBuffer;

/** The element types of the safetensors format, without complex numbers and types smaller than a byte. */
enum SafetensorsType {
    F64(8),
    F32(4),
    F16(2),
    BF16(2),
    F8_E4M3(1),
    F8_E5M2(1),
    F8_E8M0(1),
    I64(8),
    U64(8),
    I32(4),
    U32(4),
    I16(2),
    U16(2),
    I8(1),
    U8(1),
    BOOL(1);

    private final int bytes;

    SafetensorsType(int bytes) {
        this.bytes = bytes;
    }

    int bytes() {
        return bytes;
    }

    static boolean isKnown(String name) {
        for (SafetensorsType type : values()) {
            if (type.name().equals(name)) {
                return true;
            }
        }
        return false;
    }

    /** Converts elements of a little-endian buffer to floats. */
    void widen(ByteBuffer in, float[] out, int at, int count) {
        for (int i = 0; i < count; i++) {
            out[at + i] = widen(in, i * bytes);
        }
    }

    private float widen(ByteBuffer in, int at) {
        return switch (this) {
            case F64 -> (float) in.getDouble(at);
            case F32 -> in.getFloat(at);
            case F16 -> DType.F16.widen(in.getShort(at));
            case BF16 -> DType.BF16.widen(in.getShort(at));
            case F8_E4M3 -> Fp8.E4M3.widen(in.get(at));
            case F8_E5M2 -> Fp8.E5M2.widen(in.get(at));
            case F8_E8M0 -> Fp8.power(in.get(at));
            case I64 -> in.getLong(at);
            case U64 -> unsigned(in.getLong(at));
            case I32 -> in.getInt(at);
            case U32 -> Integer.toUnsignedLong(in.getInt(at));
            case I16 -> in.getShort(at);
            case U16 -> Short.toUnsignedInt(in.getShort(at));
            case I8 -> in.get(at);
            case U8 -> Byte.toUnsignedInt(in.get(at));
            case BOOL -> in.get(at) == 0 ? 0 : 1;
        };
    }

    /**
     * Converts an unsigned number. Halves it if the top bit is set, keeping the lost bit sticky so that rounding stays
     * correct.
     */
    private static float unsigned(long bits) {
        return bits >= 0 ? bits : 2 * (float) (bits >>> 1 | bits & 1);
    }
}
