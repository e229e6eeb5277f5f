package dev.starforge.cli.model;

import dev.starforge.cli.output.Escaped;
import dev.starforge.model.Quantization;
import dev.starforge.model.lora.LoraAdapter;
import java.io.PrintWriter;
import java.nio.file.Path;

/** A note of commands that apply an adapter to the base as stored. */
public final class AdapterNote {
    private AdapterNote() {}

    /** Prints a note if the adapter was trained on a quantized base. {@code eval} and {@code merge} use that base. */
    public static void noteBase(Path adapter, PrintWriter err) {
        Quantization trainedOn = LoraAdapter.trainedOn(adapter);
        if (!trainedOn.equals(Quantization.NONE)) {
            err.println("note: " + Escaped.of(adapter) + " was trained on a base quantized to " + trainedOn
                    + "; this command applies it to the base as stored. `starforge merge` uses the base of the"
                    + " training");
            err.flush();
        }
    }
}
