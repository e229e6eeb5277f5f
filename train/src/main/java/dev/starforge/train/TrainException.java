package dev.starforge.train;

/** Thrown when a run cannot continue, a checkpoint cannot be used, or an exported model fails verification. */
public class TrainException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public TrainException(String message) {
        super(message);
    }

    public TrainException(String message, Throwable cause) {
        super(message, cause);
    }
}
