package dev.starforge.model.gguf;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;

/** A value of a GGUF file's metadata. The exact type is kept, so that what is read can be written again unchanged. */
public sealed interface GgufValue {
    /** The types of scalars and of the elements of lists, in the order of the numbers that stand for them. */
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

        /** The bytes of one value, 0 when they differ from value to value. */
        int bytes() {
            return bytes;
        }
    }

    /** A whole number; UINT64 from 2^63 on is negative here. */
    record IntValue(GgufValueType type, long value) implements GgufValue {}

    record FloatValue(GgufValueType type, double value) implements GgufValue {}

    record BoolValue(boolean value) implements GgufValue {}

    record StringValue(String value) implements GgufValue {}

    /** A list of strings. */
    record StringArray(List<String> values) implements GgufValue {
        public StringArray {
            values = List.copyOf(values);
        }
    }

    /** A list of numbers or flags, kept as the file has it: little-endian and no larger. */
    record NumberArray(GgufValueType element, ByteBuffer bytes) implements GgufValue {
        public NumberArray {
            if (element.bytes() == 0 || bytes.remaining() % element.bytes() != 0) {
                throw new IllegalArgumentException(bytes.remaining() + " bytes are not a list of " + element);
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

        /** An element as a whole number: a fraction is cut off, a true flag is 1. */
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

        /** The scalar that a list of one stands for. */
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
