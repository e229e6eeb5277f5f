package dev.starforge.conformance;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.codec.MatrixCodec;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.function.IntToDoubleFunction;

/** A tensor on the host: an input of a case, or a result that was read from a device. */
final class HostTensor {
    private final Spec spec;
    private final ByteBuffer bytes;
    private float[] decoded = {};

    HostTensor(Spec spec) {
        this.spec = spec;
        this.bytes = ByteBuffer.allocateDirect(Math.toIntExact(spec.bytes())).order(ByteOrder.LITTLE_ENDIAN);
    }

    static HostTensor of(Spec spec, IntToDoubleFunction values) {
        HostTensor host = new HostTensor(spec);
        if (spec.dtype().isQuantized()) {
            float[] floats = new float[host.size()];
            for (int i = 0; i < floats.length; i++) {
                floats[i] = (float) values.applyAsDouble(i);
            }
            for (int i = 0; i < host.matrices(); i++) {
                float[] w = Arrays.copyOfRange(floats, i * host.matrixSize(), (i + 1) * host.matrixSize());
                MatrixCodec.of(spec.dtype()).encode(w, host.rows(), host.columns(), host.matrix(i));
            }
            return host;
        }
        for (int i = 0; i < host.size(); i++) {
            host.set(i, values.applyAsDouble(i));
        }
        return host;
    }

    Spec spec() {
        return spec;
    }

    Shape shape() {
        return spec.shape();
    }

    int size() {
        return Math.toIntExact(spec.shape().size());
    }

    /** All bytes in the order in which devices copy them. */
    ByteBuffer bytes() {
        return bytes.duplicate().clear().order(ByteOrder.LITTLE_ENDIAN);
    }

    double at(int i) {
        return switch (spec.dtype()) {
            case F32 -> bytes.getFloat(4 * i);
            case F16, BF16 -> spec.dtype().widen(bytes.getShort(2 * i));
            case I32 -> bytes.getInt(4 * i);
            case I8 -> bytes.get(i);
            default -> decoded(i);
        };
    }

    /** Decodes with the codec, which is independent of all backends, and caches the result; not writable afterwards. */
    private float decoded(int i) {
        if (decoded.length == 0) {
            decoded = new float[size()];
            for (int m = 0; m < matrices(); m++) {
                float[] matrix = MatrixCodec.of(spec.dtype()).decode(matrix(m), rows(), columns());
                System.arraycopy(matrix, 0, decoded, m * matrixSize(), matrix.length);
            }
        }
        return decoded[i];
    }

    private int rows() {
        return Math.toIntExact(spec.height());
    }

    private int columns() {
        return Math.toIntExact(spec.shape().last());
    }

    private int matrixSize() {
        return rows() * columns();
    }

    private int matrices() {
        return matrixSize() == 0 ? 0 : size() / matrixSize();
    }

    private ByteBuffer matrix(int i) {
        int each = Math.toIntExact(spec.matrixBytes());
        return bytes().slice(i * each, each);
    }

    /** The byte offset of an element; in a quantized tensor, of the first element of a matrix. */
    private int byteOf(int element) {
        return Math.toIntExact(
                spec.dtype().isQuantized()
                        ? spec.matrixAt(element)
                        : spec.dtype().bytes((long) element));
    }

    private void set(int i, double value) {
        switch (spec.dtype()) {
            case F32 -> bytes.putFloat(4 * i, (float) value);
            case F16, BF16 -> bytes.putShort(2 * i, spec.dtype().narrow((float) value));
            case I32 -> bytes.putInt(4 * i, (int) value);
            case I8 -> bytes.put(i, (byte) value);
            default -> throw new IllegalArgumentException("an element of " + spec + " cannot be set alone");
        }
    }

    int bits(int i) {
        return switch (spec.dtype().bytes()) {
            case 4 -> bytes.getInt(4 * i);
            case 2 -> bytes.getShort(2 * i) & 0xffff;
            default -> bytes.get(i) & 0xff;
        };
    }

    void bits(int i, int bits) {
        if (spec.dtype().bytes() == 4) {
            bytes.putInt(4 * i, bits);
        } else {
            bytes.putShort(2 * i, (short) bits);
        }
    }

    double[] doubles() {
        double[] values = new double[size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = at(i);
        }
        return values;
    }

    /** A copy of the elements from {@code first} on. */
    HostTensor slice(int first, Spec as) {
        HostTensor part = new HostTensor(as);
        part.bytes().put(bytes().slice(byteOf(first), part.bytes.capacity()));
        return part;
    }

    /** Copies the elements of a tensor of the same type to {@code first}. */
    void put(int first, HostTensor part) {
        bytes().position(byteOf(first)).put(part.bytes());
    }

    void fill(byte value) {
        for (int i = 0; i < bytes.capacity(); i++) {
            bytes.put(i, value);
        }
    }

    /** The first element whose bits differ, in a quantized tensor the first element of its matrix; -1 if all are equal. */
    int firstDifference(HostTensor other) {
        return firstDifference(other, 0, size());
    }

    /** The same for elements {@code from} to {@code to - 1}, whole matrices if quantized. */
    int firstDifference(HostTensor other, int from, int to) {
        int start = byteOf(from);
        int length = byteOf(to) - start;
        int at = bytes().slice(start, length).mismatch(other.bytes().slice(start, length));
        if (at < 0) {
            return -1;
        }
        return from
                + (spec.dtype().isQuantized()
                        ? at / (int) spec.matrixBytes() * matrixSize()
                        : at / spec.dtype().bytes());
    }
}
