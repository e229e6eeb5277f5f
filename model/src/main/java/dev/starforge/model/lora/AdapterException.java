package dev.starforge.model.lora;

import dev.starforge.model.ModelException;
import java.nio.file.Path;

/** Thrown if an adapter cannot be loaded into a table or is not in it. The table is unchanged. */
public final class AdapterException extends ModelException {
    private static final long serialVersionUID = 1;

    /** The reason for the exception. */
    public enum Reason {
        /** The rank exceeds the maximum rank of the table. */
        RANK,
        /** The adapter updates modules that are not targets of the table. */
        TARGETS,
        /** The adapter is not plain LoRA, for example DoRA. */
        VARIANT,
        /** A value is infinite or NaN, possibly after conversion to the type of the table. */
        NUMBERS,
        /** No slot is free. */
        FULL,
        /** The name is already in use, or no adapter has it. */
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
