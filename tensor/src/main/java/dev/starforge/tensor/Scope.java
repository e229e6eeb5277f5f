package dev.starforge.tensor;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * Owns tensors. There is one scope for each lifetime: the weights (the process), a session, a step. Within a scope,
 * lifetimes nest: {@link #release} frees all tensors allocated since the last {@link #mark}, except those that escape.
 * Only {@code op.Tape} retains tensors past their release; it drops them while it runs backward.
 *
 * <p>Not thread-safe: one thread owns a scope.
 */
public final class Scope implements AutoCloseable {
    private final DeviceMemory device;
    private final Allocator allocator;
    private final List<Storage> owned = new ArrayList<>();
    private final ArrayDeque<Integer> marks = new ArrayDeque<>();
    private boolean closed;

    public Scope(DeviceMemory device) {
        this.device = device;
        this.allocator = new Allocator(device);
    }

    public DeviceMemory device() {
        return device;
    }

    /**
     * Reserves device memory for tensors of these sizes, in any order, before they are allocated. Tensors that do not fit
     * into it are allocated as usual.
     */
    public void expect(List<Long> bytes) {
        if (closed) {
            throw new TensorException("expect " + bytes.size() + " tensors: the scope is closed");
        }
        allocator.expect(bytes);
    }

    public Tensor allocate(Spec spec) {
        if (closed) {
            throw new TensorException("allocate " + spec + ": the scope is closed");
        }
        Storage block = allocator.allocate(spec.bytes());
        owned.add(block);
        return new Tensor(spec, block, 0);
    }

    /** Maps a region of a file as a read-only tensor, of a type that the device can map. */
    public Tensor map(Spec spec, FileRegion region) {
        if (closed) {
            throw new TensorException("map " + spec + ": the scope is closed");
        }
        if (region.bytes() != spec.bytes()) {
            throw new TensorException("map " + spec + ": expected " + spec.bytes() + " bytes, not " + region);
        }
        Storage block = allocator.adopt(device.map(spec.dtype(), region));
        owned.add(block);
        return new Tensor(spec, block, 0);
    }

    /** Opens a nested lifetime. Each mark is released once, innermost first. */
    public void mark() {
        marks.push(owned.size());
    }

    /** Frees everything allocated since the innermost mark, except {@code escaping}, which the outer lifetime then owns. */
    public void release(Tensor... escaping) {
        if (marks.isEmpty()) {
            throw new TensorException("release without a mark");
        }
        int mark = marks.pop();
        Storage[] kept = new Storage[escaping.length];
        for (int i = 0; i < kept.length; i++) {
            kept[i] = escaping[i].storage();
        }
        int write = mark;
        for (int read = mark; read < owned.size(); read++) {
            Storage block = owned.get(read);
            if (takes(kept, block)) {
                owned.set(write++, block);
            } else if (block.drop()) {
                allocator.free(block);
            }
        }
        owned.subList(write, owned.size()).clear();
    }

    /** Removes a block from those kept and returns true if it is among them. A set would cost more than the few comparisons. */
    private static boolean takes(Storage[] kept, Storage block) {
        boolean found = false;
        for (int i = 0; i < kept.length; i++) {
            if (kept[i] == block) {
                kept[i] = null;
                found = true;
            }
        }
        return found;
    }

    /** Runs a body in a nested lifetime, which also ends if the body throws. Only the tensors that the body returns escape. */
    public <T> T within(Supplier<T> body) {
        int depth = marks.size();
        mark();
        T result;
        try {
            result = body.get();
        } catch (RuntimeException | Error failure) {
            while (marks.size() > depth) {
                release();
            }
            throw failure;
        }
        switch (result) {
            case Tensor tensor -> release(tensor);
            case Tensor[] tensors -> release(tensors);
            default -> release();
        }
        return result;
    }

    /** Frees one tensor of the innermost lifetime early. */
    public void disown(Tensor tensor) {
        int mark = marks.isEmpty() ? 0 : marks.peek();
        for (int i = owned.size() - 1; i >= mark; i--) {
            if (owned.get(i) == tensor.storage()) {
                owned.remove(i);
                drop(tensor);
                return;
            }
        }
        throw new TensorException("disown " + tensor + ": it does not belong to the innermost lifetime");
    }

    /** Retains a tensor past the release of its lifetime, until it is {@link #drop dropped}. */
    public void hold(Tensor tensor) {
        tensor.storage().hold();
    }

    public void drop(Tensor tensor) {
        Storage block = tensor.storage();
        if (block.drop()) {
            allocator.free(block);
        }
    }

    /** Turns one {@link #hold} into ownership by the innermost open lifetime. */
    public void adopt(Tensor tensor) {
        owned.add(tensor.storage());
    }

    /** Bytes allocated to tensors now. */
    public long usedBytes() {
        return allocator.used();
    }

    /** Peak of {@link #usedBytes}. */
    public long peakBytes() {
        return allocator.peak();
    }

    /** Bytes reserved on the device. */
    public long reservedBytes() {
        return allocator.reserved();
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            owned.clear();
            allocator.close();
        }
    }
}
