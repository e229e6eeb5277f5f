package dev.starforge.api.server;

/** An option of a server is out of range, or does not fit the model. */
public final class InvalidOptionException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String option;
    private final String reason;

    /** @param option name of the option as on the command line, without dashes */
    InvalidOptionException(String option, String reason) {
        super(option + ": " + reason);
        this.option = option;
        this.reason = reason;
    }

    /** The message with the option as it is written on the command line. */
    public String flagMessage() {
        return "--" + option + ": " + reason;
    }
}
