package dev.starforge.tensor.device;

import dev.starforge.tensor.TensorException;

/** A device that is missing, was asked for something it refuses, or failed. */
public class DeviceException extends TensorException {
    private static final long serialVersionUID = 1;

    public DeviceException(String message) {
        super(message);
    }

    public DeviceException(String message, Throwable cause) {
        super(message, cause);
    }
}
