package dev.starforge.model.lora;

import dev.starforge.model.ModelException;
import java.nio.file.Path;

/** An adapter that a table cannot take, or does not have. The table is as it was. */
public final class AdapterException extends ModelException {
    private static final long serialVersionUID = 1;

    /** What is wrong. */
    public enum Reason {
        /** A rank is higher than the table was planned for. */
        RANK,
        /** It updates what the table was not planned for. */
        TARGETS,
        /** It is no plain LoRA, as with DoRA. */
        VARIANT,
        /** A number is infinite or NaN, or is so in the type of the table. */
        NUMBERS,
        /** No place is free. */
        FULL,
        /** The name is taken, or nothing has it. */
        NAME
    }

    private final Reason reason;

    AdapterException(Reason reason, Path adapter, String message) {
        super(adapter, message);
        this.reason = reason;
    }

    public Reason reason() {
        return reason;
    }
}
