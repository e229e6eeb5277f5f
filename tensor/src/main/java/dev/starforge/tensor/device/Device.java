package dev.starforge.tensor.device;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.EagerOps;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Op;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The seam. A backend implements this for each device it can open; nothing above it knows which one it has. Serial: the
 * thread that opened a device uses it.
 */
public interface Device extends AutoCloseable {
    /** Short and stable: cpu, reference, cuda:0. */
    String name();

    /**
     * Whether the device runs this operation on these types and shapes itself, leaves it to the expansion, or cannot run
     * it. A declared answer, never a caught failure.
     */
    Support supports(Op op, Spec... in);

    /** Bytes of scratch memory, outside any scope, that the operation needs. */
    long workspace(Op op, Spec... in);

    /** Bytes of scratch memory the device holds now. */
    long workspaceBytes();

    /** Computes {@code out} from {@code in}. Specs were checked, the operation is supported, outputs hold anything at all. */
    void run(Op op, Tensor[] in, Tensor[] out);

    Memory reserve(long bytes);

    /** Several stretches at once, for a device that is quicker about them together; all or none. */
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

    /** Whether tensors of a type can be a file's own bytes here. */
    default boolean maps(DType type) {
        return false;
    }

    /** A file's own bytes, which nobody may write to, as memory for a tensor of a type that this device maps. */
    default Memory map(DType type, FileRegion region) {
        throw new DeviceException("map " + region + ": " + name() + " computes on no file");
    }

    void release(Memory memory);

    /** Whether tensors here have values at all; a plan's have none, so that nothing need be read for it. */
    default boolean holdsValues() {
        return true;
    }

    /**
     * Copies little-endian elements from the host, after everything that was run before. Of a quantized tensor these are
     * the {@link DType#planes planes} of each matrix, one after the other, and all of them; how they lie in the device's
     * memory is its own business, as long as {@link #read} gives back what was written.
     */
    void write(Tensor to, ByteBuffer from);

    /**
     * The same in pieces of any size, for a tensor that the host should not hold as a whole: those of a quantized tensor in
     * order, from byte 0 to its end, after which it may be used; elements of any other anywhere.
     */
    default void write(Tensor to, long from, ByteBuffer piece) {
        if (!to.dtype().isQuantized()) {
            int bytes = to.dtype().bytes();
            write(to.view(from / bytes, Shape.of(piece.remaining() / bytes)), piece);
        } else if (from == 0 && piece.remaining() == to.bytes()) {
            write(to, piece);
        } else {
            throw new DeviceException("write: " + name() + " takes quantized tensors whole, got bytes " + from + " to "
                    + (from + piece.remaining()) + " of " + to);
        }
    }

    /** Copies little-endian elements to the host, after everything that was run before: what was written, whatever the layout. */
    void read(Tensor from, ByteBuffer to);

    /**
     * Runs a step that will be asked for again under the same key. The step must do the same operations on the same
     * tensors each time, with no host copy inside; a device that can records it once and replays the recording.
     */
    default void replay(Object key, Runnable step) {
        step.run();
    }

    /** Drops what was recorded under a key, before the tensors it uses go away. */
    default void forget(Object key) {}

    /**
     * Whether operations and copies to the device are queued and return before they are done, each behind those before it. The
     * host then has time for something else until it reads.
     */
    default boolean asynchronous() {
        return false;
    }

    /** Waits until everything that was run has finished. */
    default void synchronize() {}

    /** What the device can do at best, measured now over so many bytes of its memory; empty where nobody has written that. */
    default Optional<Limits> limits(long bytes) {
        return Optional.empty();
    }

    /** Utilization and memory of the device's own processor, unknown where its driver does not say; empty on the host's cores. */
    default Optional<Usage> usage() {
        return Optional.empty();
    }

    @Override
    void close();

    default EagerOps ops(Scope scope, Precision precision, Fallback fallback) {
        return new EagerOps(this, scope, precision, fallback);
    }

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

    /** The same into an array that is there already. */
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
