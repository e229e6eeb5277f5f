package dev.starforge.tensor;

import java.util.Arrays;

/** Immutable row-major dimensions. Zero dimensions are allowed (an empty batch is a batch); a product past 2^63 is not. */
public final class Shape {
    private final long[] dims;
    private final long size;

    private Shape(long[] dims) {
        long size = 1;
        for (long dim : dims) {
            if (dim < 0) {
                throw new ShapeException("shape " + Arrays.toString(dims) + ": dimensions must not be negative");
            }
            try {
                size = Math.multiplyExact(size, dim);
            } catch (ArithmeticException overflow) {
                throw new ShapeException("shape " + Arrays.toString(dims) + ": more elements than 2^63");
            }
        }
        this.dims = dims;
        this.size = size;
    }

    public static Shape of(long... dims) {
        return new Shape(dims.clone());
    }

    public int rank() {
        return dims.length;
    }

    /** The dimension at {@code axis}; negative axes count from the end. */
    public long dim(int axis) {
        int at = axis < 0 ? dims.length + axis : axis;
        if (at < 0 || at >= dims.length) {
            throw new ShapeException("shape " + this + ": no axis " + axis);
        }
        return dims[at];
    }

    /** Number of elements. */
    public long size() {
        return size;
    }

    /** The last dimension, the length of a row; a scalar is one row of one element. */
    public long last() {
        return dims.length == 0 ? 1 : dims[dims.length - 1];
    }

    /** The product of all dimensions but the last. */
    public long rows() {
        long rows = 1;
        for (int i = 0; i < dims.length - 1; i++) {
            rows *= dims[i];
        }
        return rows;
    }

    public Shape withLast(long last) {
        dim(-1); // throws for a scalar
        long[] changed = dims.clone();
        changed[changed.length - 1] = last;
        return new Shape(changed);
    }

    public Shape withFirst(long first) {
        dim(0); // throws for a scalar
        long[] changed = dims.clone();
        changed[0] = first;
        return new Shape(changed);
    }

    public boolean endsWith(Shape suffix) {
        return suffix.rank() <= rank()
                && Arrays.equals(dims, rank() - suffix.rank(), rank(), suffix.dims, 0, suffix.rank());
    }

    public long[] dims() {
        return dims.clone();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Shape shape && Arrays.equals(dims, shape.dims);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(dims);
    }

    @Override
    public String toString() {
        return Arrays.toString(dims);
    }
}
