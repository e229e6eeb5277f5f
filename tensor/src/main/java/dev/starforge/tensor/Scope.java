package dev.starforge.tensor;

import dev.starforge.tensor.op.Tape;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * Owns tensors. There is one for each lifetime: the weights (the process), a session, a step. Within a scope lifetimes
 * nest by mark and release: what was allocated since a mark is given back together, but for the tensors that escape.
 * {@link Tape} alone holds tensors past their release, and drops them again while it runs backward.
 *
 * <p>Serial: one thread owns a scope.
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
     * Says beforehand what will be allocated, about and in any order: the device reserves it at once, and no more than it.
     * What then does not fit, or was not said, is reserved as usual.
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

    /** A tensor that is a stretch of a file and is never written to, of a type that the device maps. */
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

    /** Opens a nested lifetime. Every mark is released once, innermost first. */
    public void mark() {
        marks.push(owned.size());
    }

    /** Gives back everything allocated since the innermost mark, except {@code escaping}, which the outer lifetime owns now. */
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

    /** Whether a block is among those kept; each is kept once. A set would cost more than the few comparisons. */
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

    /** Runs a body in a lifetime of its own that also ends when the body fails; nothing escapes but what it returns. */
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

    /** Gives one tensor of the innermost lifetime back before the rest. */
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

    /** One more holder: the tensor outlives the release of its lifetime until it is {@link #drop dropped}. */
    public void hold(Tensor tensor) {
        tensor.storage().hold();
    }

    public void drop(Tensor tensor) {
        Storage block = tensor.storage();
        if (block.drop()) {
            allocator.free(block);
        }
    }

    /** Turns one hold into ownership by the innermost open lifetime. */
    public void adopt(Tensor tensor) {
        owned.add(tensor.storage());
    }

    /** Bytes handed out now. */
    public long usedBytes() {
        return allocator.used();
    }

    /** The most bytes that were handed out at one time. */
    public long peakBytes() {
        return allocator.peak();
    }

    /** Bytes taken from the device. */
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
