package dev.starforge.cli.model;

import dev.starforge.cli.output.Escaped;
import dev.starforge.model.Quantization;
import dev.starforge.model.lora.LoraAdapter;
import java.io.PrintWriter;
import java.nio.file.Path;

/** What commands say that put an adapter on a base as its file has it. */
public final class AdapterNote {
    private AdapterNote() {}

    /** Says so if the adapter was trained on a quantized base, which `eval` and `merge` then take. */
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
