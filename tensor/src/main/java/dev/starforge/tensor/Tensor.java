package dev.starforge.tensor;

/**
 * A handle on row-major elements in the memory of a device. Immutable: {@code op.Ops} runs operations on it, {@link Scope}
 * manages its lifetime. Equality is identity; {@code op.Tape} relies on it.
 */
public final class Tensor {
    private final Spec spec;
    private final Storage storage;
    private final long offset;

    Tensor(Spec spec, Storage block, long offset) {
        if (offset < 0 || spec.bytes() > block.bytes() - offset) {
            throw new ShapeException("tensor " + spec + " at byte " + offset + " does not fit into a block of "
                    + block.bytes() + " bytes");
        }
        this.spec = spec;
        this.storage = block;
        this.offset = offset;
    }

    public Spec spec() {
        return spec;
    }

    public DType dtype() {
        return spec.dtype();
    }

    public Shape shape() {
        return spec.shape();
    }

    public long dim(int axis) {
        return spec.shape().dim(axis);
    }

    public long bytes() {
        return spec.bytes();
    }

    /** Returns the device memory of this tensor. */
    public Memory memory() {
        return storage().memory();
    }

    /** Offset of the first element in {@link #memory()}, in bytes. */
    public long offset() {
        return storage().offset() + offset;
    }

    /**
     * Returns a view with another shape that starts at {@code element}. It shares the storage. Devices choose their own
     * layout of a quantized matrix (the last two dimensions), so a view of a quantized tensor consists of whole matrices.
     */
    public Tensor view(long element, Shape shape) {
        Spec part = new Spec(dtype(), shape);
        if (dtype().isQuantized()) {
            requireMatrices(element, part);
            return new Tensor(part, storage, Math.addExact(offset, spec.matrixAt(element)));
        }
        return new Tensor(part, storage, Math.addExact(offset, Math.multiplyExact(element, dtype().bytes())));
    }

    /** Returns the same bytes as elements of another plain type of the same size, so that one copy can hold both types. */
    public Tensor as(DType type) {
        if (dtype().isQuantized() || type.isQuantized() || dtype().bytes() != type.bytes()) {
            throw new ShapeException("view of " + spec + " as " + type + ": expected a plain type of the same size");
        }
        return new Tensor(new Spec(type, shape()), storage, offset);
    }

    private void requireMatrices(long element, Spec part) {
        long matrix = spec.height() * spec.shape().last();
        boolean same = part.height() == spec.height()
                && part.shape().last() == spec.shape().last();
        if (element < 0 || !same || matrix > 0 && element % matrix != 0) {
            throw new ShapeException("view of " + spec + " from element " + element + " as " + part.shape()
                    + ": expected whole matrices of " + spec.height() + " x "
                    + spec.shape().last());
        }
    }

    public Storage storage() {
        if (storage.freed()) {
            throw new TensorException("tensor " + spec + " is used after its scope released it");
        }
        return storage;
    }

    @Override
    public String toString() {
        return spec.toString();
    }
}
