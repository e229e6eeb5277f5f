package dev.starforge.tensor.device;

/** A device has not as much memory as was asked for. Less may do: this is the one failure a caller can act on. */
public final class MemoryException extends DeviceException {
    private static final long serialVersionUID = 1;

    public MemoryException(String message) {
        super(message);
    }

    public MemoryException(String message, Throwable cause) {
        super(message, cause);
    }
}
