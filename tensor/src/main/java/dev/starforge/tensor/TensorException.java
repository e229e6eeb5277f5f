package dev.starforge.tensor;

/** Misuse or failure inside the tensor layer; the message begins with the operation and gives the numbers. */
public class TensorException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public TensorException(String message) {
        super(message);
    }

    public TensorException(String message, Throwable cause) {
        super(message, cause);
    }
}
