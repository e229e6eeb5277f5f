package dev.starforge.tensor.device;

/** Out of memory on a device. The one device failure that a caller can handle, by asking for less. */
public final class MemoryException extends DeviceException {
    private static final long serialVersionUID = 1;

    public MemoryException(String message) {
        super(message);
    }

    public MemoryException(String message, Throwable cause) {
        super(message, cause);
    }
}
