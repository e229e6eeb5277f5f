package dev.starforge.tensor;

/**
 * A handle on row-major elements in some device's memory. Immutable and without behaviour: operations belong to
 * {@link Ops}, lifetimes to {@link Scope}. Equality is identity, which is what {@link Tape} follows.
 */
public final class Tensor {
    private final Spec spec;
    private final Block block;
    private final long offset;

    Tensor(Spec spec, Block block, long offset) {
        if (offset < 0 || spec.bytes() > block.bytes() - offset) {
            throw new ShapeException("tensor " + spec + " at byte " + offset + " does not fit into a block of "
                    + block.bytes() + " bytes");
        }
        this.spec = spec;
        this.block = block;
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
        return block().memory();
    }

    /** Where in {@link #memory()} the first element is, in bytes. */
    public long offset() {
        return block().offset() + offset;
    }

    /** The same elements from {@code element} on, seen with another shape. Shares storage; owns nothing. */
    public Tensor view(long element, Shape shape) {
        return new Tensor(
                new Spec(dtype(), shape), block, Math.addExact(offset, Math.multiplyExact(element, dtype().bytes())));
    }

    Block block() {
        if (block.freed()) {
            throw new TensorException("tensor " + spec + " is used after its scope released it");
        }
        return block;
    }

    @Override
    public String toString() {
        return spec.toString();
    }
}
