package dev.starforge.train.merge;

import dev.starforge.model.convert.GgufConversion;
import dev.starforge.model.convert.LoraMerger;
import dev.starforge.model.file.Safetensors;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.file.SafetensorsWriter;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.train.TrainException;
import dev.starforge.train.text.Tokenizers;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Writes a fully trained model as a HF folder, without the other files of a checkpoint, or as a GGUF file. Reads it
 * back and verifies that it computes the same. If verification fails, the output is removed.
 *
 * @param type F32, BF16 or F16; empty for the types of the model
 * @param shardBytes maximum size of a file in a folder
 */
public record ModelExport(Path model, String type, long shardBytes, Device device) {
    /**
     * The verification result.
     *
     * @param range of the original's logits
     * @param error largest error over the tokens that must agree
     * @param bound largest permitted error, as a share of the range
     * @param notes messages for the user
     */
    public record Result(double range, double error, double bound, List<String> notes) {}

    /** Returns true if a folder has a complete model rather than an adapter. */
    public static boolean isModel(Path folder) {
        return Files.isRegularFile(folder.resolve("config.json"))
                && !Files.isRegularFile(folder.resolve(LoraAdapter.CONFIG));
    }

    public Result write(Path out, ModelFormat format) throws IOException {
        try (PartialOutput partial = new PartialOutput(out, format)) {
            List<String> notes = new ArrayList<>();
            switch (format) {
                case HF -> writeFolder(partial.path());
                case GGUF ->
                    notes.addAll(GgufConversion.write(model, partial.path(), type, Tokenizers.metadata(model), device));
            }
            if (Tokenizers.find(model).isEmpty()) {
                notes.add("the model has no tokenizer.json, so the output has no vocabulary");
            }
            LogitAgreement agreement = LogitAgreement.of(logits(), partial.path(), device);
            if (!agreement.holds()) {
                throw new TrainException(out + ": does not compute what " + model
                        + " computes: the largest difference is " + agreement.error() + " on logits of range "
                        + agreement.range());
            }
            partial.publish();
            return new Result(agreement.range(), agreement.error(), agreement.bound(), notes);
        }
    }

    private float[] logits() {
        try (ModelFiles files = ModelFiles.open(model);
                Scope weights = new Scope(device)) {
            return LogitAgreement.logits(files.load(weights, Precision.FLOAT32), device);
        }
    }

    private void writeFolder(Path folder) throws IOException {
        Files.createDirectories(folder);
        try (Safetensors weights = Safetensors.open(model)) {
            List<SafetensorsWriter.SafetensorsEntry> entries = new ArrayList<>();
            for (SafetensorsFile.SafetensorsTensor stored : weights.tensors().values()) {
                entries.add(SafetensorsWriter.SafetensorsEntry.of(
                        stored.name(),
                        type.isEmpty() ? stored.dtype() : type,
                        stored.shape(),
                        (first, values, count) -> weights.readFloats(stored, first, values, 0, count)));
            }
            SafetensorsWriter.writeModel(folder, entries, shardBytes);
        }
        for (String name : LoraMerger.COMPANIONS) {
            if (Files.isRegularFile(model.resolve(name))) {
                Files.copy(model.resolve(name), folder.resolve(name));
            }
        }
    }
}
