package dev.starforge.model.gguf;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;

/** A metadata value of a GGUF file. It keeps its exact type, so that it can be written unchanged. */
public sealed interface GgufValue {
    /** The types of scalars and array elements, in the order of their ids. */
    enum GgufValueType {
        UINT8(1),
        INT8(1),
        UINT16(2),
        INT16(2),
        UINT32(4),
        INT32(4),
        FLOAT32(4),
        BOOL(1),
        STRING(0),
        ARRAY(0),
        UINT64(8),
        INT64(8),
        FLOAT64(8);

        private final int bytes;

        GgufValueType(int bytes) {
            this.bytes = bytes;
        }

        /** Returns the size of one value in bytes, 0 if it varies. */
        int bytes() {
            return bytes;
        }
    }

    /** An integer. UINT64 values of 2^63 and above are negative here. */
    record IntValue(GgufValueType type, long value) implements GgufValue {}

    record FloatValue(GgufValueType type, double value) implements GgufValue {}

    record BoolValue(boolean value) implements GgufValue {}

    record StringValue(String value) implements GgufValue {}

    /** An array of strings. */
    record StringArray(List<String> values) implements GgufValue {
        public StringArray {
            values = List.copyOf(values);
        }
    }

    /** An array of numbers or booleans in the encoding of the file (little-endian). */
    record NumberArray(GgufValueType element, ByteBuffer bytes) implements GgufValue {
        public NumberArray {
            if (element.bytes() == 0 || bytes.remaining() % element.bytes() != 0) {
                throw new IllegalArgumentException(bytes.remaining() + " bytes are not an array of " + element);
            }
            bytes = bytes.slice().order(ByteOrder.LITTLE_ENDIAN);
        }

        public static NumberArray of(int... values) {
            ByteBuffer bytes = ByteBuffer.allocate(4 * values.length).order(ByteOrder.LITTLE_ENDIAN);
            bytes.asIntBuffer().put(values);
            return new NumberArray(GgufValueType.INT32, bytes);
        }

        public static NumberArray of(float... values) {
            ByteBuffer bytes = ByteBuffer.allocate(4 * values.length).order(ByteOrder.LITTLE_ENDIAN);
            bytes.asFloatBuffer().put(values);
            return new NumberArray(GgufValueType.FLOAT32, bytes);
        }

        public int size() {
            return bytes.limit() / element.bytes();
        }

        /** Returns an element as an integer: fractions are truncated, true is 1. */
        public long integer(int i) {
            int at = i * element.bytes();
            return switch (element) {
                case UINT8 -> Byte.toUnsignedInt(bytes.get(at));
                case INT8 -> bytes.get(at);
                case UINT16 -> Short.toUnsignedInt(bytes.getShort(at));
                case INT16 -> bytes.getShort(at);
                case UINT32 -> Integer.toUnsignedLong(bytes.getInt(at));
                case INT32 -> bytes.getInt(at);
                case UINT64, INT64 -> bytes.getLong(at);
                case FLOAT32, FLOAT64 -> (long) number(i);
                case BOOL -> bytes.get(at) == 0 ? 0 : 1;
                case STRING, ARRAY -> throw new IllegalStateException(element + " has no numbers");
            };
        }

        public double number(int i) {
            return switch (element) {
                case FLOAT32 -> bytes.getFloat(4 * i);
                case FLOAT64 -> bytes.getDouble(8 * i);
                default -> integer(i);
            };
        }

        /** Returns the scalar of an array of length one. */
        GgufValue single() {
            return switch (element) {
                case FLOAT32, FLOAT64 -> new FloatValue(element, number(0));
                case BOOL -> new BoolValue(integer(0) != 0);
                default -> new IntValue(element, integer(0));
            };
        }
    }

    static IntValue u32(int value) {
        return new IntValue(GgufValueType.UINT32, Integer.toUnsignedLong(value));
    }

    static FloatValue f32(float value) {
        return new FloatValue(GgufValueType.FLOAT32, value);
    }

    static StringValue string(String value) {
        return new StringValue(value);
    }

    static BoolValue bool(boolean value) {
        return new BoolValue(value);
    }
}
