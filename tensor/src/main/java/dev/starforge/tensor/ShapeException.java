package dev.starforge.tensor;

/** Inputs whose shapes or types an operation does not accept. */
public final class ShapeException extends TensorException {
    private static final long serialVersionUID = 1;

    public ShapeException(String message) {
        super(message);
    }
}
