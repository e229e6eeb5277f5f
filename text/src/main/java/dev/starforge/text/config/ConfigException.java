package dev.starforge.text.config;

/** Thrown for an invalid setting; the message begins with its location and names the key. */
public final class ConfigException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public ConfigException(String message) {
        super(message);
    }

    public ConfigException(String message, Throwable cause) {
        super(message, cause);
    }
}
