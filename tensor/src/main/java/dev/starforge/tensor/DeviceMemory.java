package dev.starforge.tensor;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/** The memory of a device: reserves it for scopes and copies tensors from and to the host. */
public interface DeviceMemory {
    /** Short and stable: cpu, reference, cuda:0. */
    String name();

    Memory reserve(long bytes);

    /** Reserves several blocks at once, all or none. A device overrides this if it can reserve them faster together. */
    default List<Memory> reserveAll(List<Long> bytes) {
        List<Memory> reserved = new ArrayList<>();
        try {
            bytes.forEach(each -> reserved.add(reserve(each)));
        } catch (RuntimeException | Error failure) {
            reserved.forEach(this::release);
            throw failure;
        }
        return reserved;
    }

    void release(Memory memory);

    /** Returns true if tensors of this type can be memory-mapped from a file. */
    default boolean maps(DType type) {
        return false;
    }

    /** Maps a region of a file, read-only, as memory for a tensor of a type for which {@link #maps} returns true. */
    Memory map(DType type, FileRegion region);

    /** Returns false if tensors on this device have shapes only, as in a memory plan, so no weights need to be read. */
    default boolean holdsValues() {
        return true;
    }

    /**
     * Copies little-endian elements from the host, after all operations run so far. A quantized tensor must be written
     * whole: the {@link DType#planes planes} of each matrix, one after the other. The device may store them in another
     * layout; {@link #read} returns the bytes that were written.
     */
    void write(Tensor to, ByteBuffer from);

    /**
     * Copies part of a tensor from the host. The parts of a quantized tensor must be written in order, from byte 0 to the
     * end, before the tensor is used; elements of other types may be written anywhere.
     */
    void write(Tensor to, long from, ByteBuffer piece);

    /** Copies little-endian elements to the host, after all operations run so far, in the layout of {@link #write}. */
    void read(Tensor from, ByteBuffer to);

    default void write(Tensor to, float... values) {
        ByteBuffer buffer = buffer(to, DType.F32, values.length);
        buffer.asFloatBuffer().put(values);
        write(to, buffer);
    }

    default void write(Tensor to, int... values) {
        ByteBuffer buffer = buffer(to, DType.I32, values.length);
        buffer.asIntBuffer().put(values);
        write(to, buffer);
    }

    default float[] floats(Tensor from) {
        float[] values = new float[Math.toIntExact(from.shape().size())];
        floats(from, values);
        return values;
    }

    /** Copies the elements into an existing array. */
    default void floats(Tensor from, float[] values) {
        ByteBuffer buffer = buffer(from, DType.F32, values.length);
        read(from, buffer);
        buffer.rewind().order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(values);
    }

    default int[] ints(Tensor from) {
        int[] values = new int[Math.toIntExact(from.shape().size())];
        ByteBuffer buffer = buffer(from, DType.I32, values.length);
        read(from, buffer);
        buffer.rewind().order(ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(values);
        return values;
    }

    private static ByteBuffer buffer(Tensor tensor, DType expected, int length) {
        if (tensor.dtype() != expected || tensor.shape().size() != length) {
            throw new ShapeException("copy: " + length + " elements of " + expected + " against tensor " + tensor);
        }
        return ByteBuffer.allocateDirect(Math.toIntExact(tensor.bytes())).order(ByteOrder.LITTLE_ENDIAN);
    }
}
