package dev.starforge.tensor;

/** What is known of a tensor before it exists: element type and shape. Rows of a block type are whole blocks. */
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

    public long bytes() {
        return dtype.bytes(shape.size());
    }

    @Override
    public String toString() {
        return dtype + shape.toString();
    }
}
