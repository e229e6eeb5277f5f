package dev.starforge.tensor;

import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Tape;

/**
 * A handle on row-major elements in some device's memory. Immutable and without behaviour: operations belong to
 * {@link Ops}, lifetimes to {@link Scope}. Equality is identity, which is what {@link Tape} follows.
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

    /** The device memory this tensor lies in. */
    public Memory memory() {
        return storage().memory();
    }

    /** Where in {@link #memory()} the first element is, in bytes. */
    public long offset() {
        return storage().offset() + offset;
    }

    /**
     * The same elements from {@code element} on, seen with another shape. Shares storage; owns nothing. How a device lays
     * out a quantized matrix (the last two dimensions) is its own business, so of a quantized tensor there are views of
     * whole matrices.
     */
    public Tensor view(long element, Shape shape) {
        Spec part = new Spec(dtype(), shape);
        if (dtype().isQuantized()) {
            requireMatrices(element, part);
            return new Tensor(part, storage, Math.addExact(offset, spec.matrixAt(element)));
        }
        return new Tensor(part, storage, Math.addExact(offset, Math.multiplyExact(element, dtype().bytes())));
    }

    /** The same bits as elements of another plain type that has as many bytes: how numbers of two types go in one copy. */
    public Tensor as(DType type) {
        if (dtype().isQuantized() || type.isQuantized() || dtype().bytes() != type.bytes()) {
            throw new ShapeException("view of " + spec + " as " + type + ": expected a plain type of as many bytes");
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
