package dev.starforge.train;

/** A run that cannot go on, a checkpoint that cannot be used, an export that is not right; the message says which and why. */
public class TrainException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public TrainException(String message) {
        super(message);
    }

    public TrainException(String message, Throwable cause) {
        super(message, cause);
    }
}
