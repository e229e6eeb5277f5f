package dev.starforge.text.config;

/** A setting that cannot be obeyed; the message begins with where it stands and names the key. */
public final class ConfigException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public ConfigException(String message) {
        super(message);
    }

    public ConfigException(String message, Throwable cause) {
        super(message, cause);
    }
}
