package dev.starforge.tensor;

/** What is known of a tensor before it exists: element type and shape. */
public record Spec(DType dtype, Shape shape) {
    public static Spec f32(long... dims) {
        return new Spec(DType.F32, Shape.of(dims));
    }

    public static Spec i32(long... dims) {
        return new Spec(DType.I32, Shape.of(dims));
    }

    public long bytes() {
        try {
            return Math.multiplyExact(shape.size(), dtype.bytes());
        } catch (ArithmeticException overflow) {
            throw new ShapeException(dtype + shape.toString() + ": more bytes than 2^63");
        }
    }

    @Override
    public String toString() {
        return dtype + shape.toString();
    }
}
