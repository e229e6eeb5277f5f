package dev.starforge.tensor;

/** What is known of a tensor before it exists: element type and shape. Rows of a quantized type are whole blocks. */
public record Spec(DType dtype, Shape shape) {
    public Spec {
        if (shape.last() % dtype.blockElements() != 0) {
            throw new ShapeException(dtype + shape.toString() + ": rows of " + shape.last()
                    + ", expected a multiple of " + dtype.blockElements());
        }
    }

    public static Spec f32(long... dims) {
        return new Spec(DType.F32, Shape.of(dims));
    }

    public static Spec i32(long... dims) {
        return new Spec(DType.I32, Shape.of(dims));
    }

    /** The bytes of all planes of all matrices. */
    public long bytes() {
        return dtype.isPlanar() ? Math.multiplyExact(matrices(), matrixBytes()) : dtype.bytes(shape.size());
    }

    /** Matrices are what the last two dimensions say, vectors being matrices of one row; each is stored by itself. */
    public long matrices() {
        long matrices = 1;
        for (int axis = 0; axis < shape.rank() - 2; axis++) {
            matrices *= shape.dim(axis);
        }
        return matrices;
    }

    /** The rows of a matrix. */
    public long height() {
        return shape.rank() < 2 ? 1 : shape.dim(-2);
    }

    public long matrixBytes() {
        long bytes = 0;
        for (Plane plane : dtype.planes(height(), shape.last())) {
            bytes += plane.bytes();
        }
        if (dtype.isPlanar() && bytes > Integer.MAX_VALUE) {
            throw new ShapeException(this + ": a matrix takes " + bytes + " bytes, expected less than 2^31");
        }
        return bytes;
    }

    /** Where, in bytes, the matrix begins that begins with an element. */
    public long matrixAt(long element) {
        long matrix = height() * shape.last();
        return matrix == 0 ? 0 : element / matrix * matrixBytes();
    }

    @Override
    public String toString() {
        return dtype + shape.toString();
    }
}
