package dev.starforge.tensor;

import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Memory;
import java.nio.ByteBuffer;

/**
 * A handle on row-major elements in some device's memory. Immutable and without behaviour: operations belong to
 * {@link Ops}, lifetimes to {@link Scope}. Equality is identity, which is what {@link Tape} follows.
 */
public final class Tensor {
    /** Views of a quantized matrix begin at multiples of so many rows; see {@link Device#write(Tensor, ByteBuffer)}. */
    public static final int PANEL = 32;

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

    /**
     * The same elements from {@code element} on, seen with another shape. Shares storage; owns nothing. How a device lays
     * out a quantized matrix (the last two dimensions) is its own business, so of a quantized tensor there are views of
     * whole matrices, and of rows of one matrix that begin at a multiple of {@link #PANEL} and end at one or at its end.
     */
    public Tensor view(long element, Shape shape) {
        if (!dtype().isBlock()) {
            return new Tensor(
                    new Spec(dtype(), shape),
                    block,
                    Math.addExact(offset, Math.multiplyExact(element, dtype().bytes())));
        }
        requireWholePanels(element, shape);
        return new Tensor(new Spec(dtype(), shape), block, Math.addExact(offset, dtype().bytes(element)));
    }

    private void requireWholePanels(long element, Shape shape) {
        long width = spec.shape().last();
        long height = matrixRows(spec.shape());
        boolean rows = element >= 0 && shape.last() == width && (width == 0 || element % width == 0);
        long first = width == 0 ? 0 : element / width;
        boolean matrices = height == 0 || first % height == 0 && matrixRows(shape) == height;
        boolean panels = shape.rank() <= 2
                && height > 0
                && first % height % PANEL == 0
                && (matrixRows(shape) % PANEL == 0 || first % height + matrixRows(shape) == height)
                && first % height + matrixRows(shape) <= height;
        if (!rows || !matrices && !panels) {
            throw new ShapeException("view of " + spec + " from element " + element + " as " + shape
                    + ": expected whole matrices, or rows of one from a multiple of " + PANEL + " to a multiple of "
                    + PANEL + " or its end");
        }
    }

    private static long matrixRows(Shape shape) {
        return shape.rank() < 2 ? 1 : shape.dim(-2);
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
