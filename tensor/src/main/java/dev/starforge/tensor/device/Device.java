package dev.starforge.tensor.device;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.DeviceMemory;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Op;
import java.nio.ByteBuffer;
import java.util.Optional;

/**
 * The service provider interface of a backend, implemented for each device it can open. Code above it does not depend on
 * the backend. Single-threaded: only the thread that opened a device uses it.
 */
public interface Device extends DeviceMemory, AutoCloseable {
    /** Returns the device whose memory a scope allocates. */
    static Device of(Scope scope) {
        if (scope.device() instanceof Device device) {
            return device;
        }
        throw new DeviceException(scope.device().name() + ": has memory only, it runs no operations");
    }

    /**
     * Returns whether the device has a kernel for this operation on these types and shapes, runs its expansion instead, or
     * cannot run it. The answer is declared; it is never derived from a caught failure.
     */
    Support supports(Op op, Spec... in);

    /** Bytes of scratch memory, outside any scope, that the operation needs. */
    long workspace(Op op, Spec... in);

    /** Bytes of scratch memory the device holds now. */
    long workspaceBytes();

    /** Computes {@code out} from {@code in}. The caller has checked specs and support; outputs are uninitialized. */
    void run(Op op, Tensor[] in, Tensor[] out);

    @Override
    default Memory map(DType type, FileRegion region) {
        throw new DeviceException("map " + region + ": " + name() + " does not support memory-mapped files");
    }

    @Override
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

    /**
     * Runs a step that will run again under the same key. The step must do the same operations on the same tensors each
     * time, without host copies; a device that supports it captures the step once (a CUDA graph, a list of launches
     * on Metal) and replays it.
     */
    default void replay(Object key, Runnable step) {
        step.run();
    }

    /** Drops what was captured under a key. Call this before the tensors it uses are released. */
    default void forget(Object key) {}

    /**
     * Returns true if operations and copies to the device are queued and return before they finish. They run in order; the
     * host can do other work until it reads.
     */
    default boolean asynchronous() {
        return false;
    }

    /** Waits until all queued work has finished. */
    default void synchronize() {}

    /** Measures the peak throughput of the device over this many bytes of its memory; empty if it has no such measurement. */
    default Optional<Limits> limits(long bytes) {
        return Optional.empty();
    }

    /** Utilization and memory of the device's own processor, unknown if its driver does not report it; empty on a CPU. */
    default Optional<Usage> usage() {
        return Optional.empty();
    }

    @Override
    void close();

    default EagerOps ops(Scope scope, Precision precision, Fallback fallback) {
        return new EagerOps(this, scope, precision, fallback);
    }
}
