package dev.starforge.cli;

import dev.starforge.model.GgufConversion;
import dev.starforge.model.LoraAdapter;
import dev.starforge.model.Merger;
import dev.starforge.model.Safetensors;
import dev.starforge.model.SafetensorsFile;
import dev.starforge.model.SafetensorsWriter;
import dev.starforge.tensor.Device;
import dev.starforge.train.TrainException;
import dev.starforge.train.merge.ExportProof;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import tools.jackson.databind.node.ObjectNode;

/**
 * The model of a checkpoint in which every weight was trained, without what else a checkpoint has: written as a folder of HF
 * or as a GGUF file, read back, and proved to compute what the checkpoint computes.
 *
 * @param type F32, BF16 or F16; empty for that of the checkpoint
 */
record TrainedModel(Path checkpoint, String type, long shardBytes, Device device) {
    /** Whether a folder has a model of its own, and no adapter. */
    static boolean isOne(Path folder) {
        return Files.isRegularFile(folder.resolve("config.json"))
                && !Files.isRegularFile(folder.resolve(LoraAdapter.CONFIG));
    }

    /** Under another name until it is proved. */
    ObjectNode write(Path out, boolean gguf) throws IOException {
        Path partial = out.resolveSibling(".partial-" + out.getFileName() + (gguf ? ".gguf" : ""));
        MergeVerb.remove(partial);
        try {
            List<String> notes = new ArrayList<>();
            if (gguf) {
                notes.addAll(GgufConversion.write(checkpoint, partial, type, Tokenizers.metadata(checkpoint), device));
            } else {
                writeFolder(partial);
            }
            if (Tokenizers.find(checkpoint).isEmpty()) {
                notes.add("the model has no tokenizer.json, so what is written has no vocabulary");
            }
            ExportProof proof = ExportProof.of(checkpoint, partial, device);
            if (!proof.holds()) {
                throw new TrainException(out + ": is not the trained model: the largest difference is " + proof.error()
                        + " on logits of range " + proof.range());
            }
            Files.move(partial, out, StandardCopyOption.ATOMIC_MOVE);
            ObjectNode report = Json.object();
            report.put("model", checkpoint.toString()).put("out", out.toString());
            report.put("format", gguf ? "gguf" : "hf");
            report.put("logits_range", proof.range()).put("largest_difference", proof.error());
            report.put("bound", proof.bound() * proof.range()).put("proved", true);
            report.put(
                    "verdict",
                    "every weight was trained: there was no adapter to add, and the model is the trained one");
            if (!notes.isEmpty()) {
                report.put("note", String.join("; ", notes));
            }
            return report;
        } finally {
            MergeVerb.remove(partial);
        }
    }

    private void writeFolder(Path folder) throws IOException {
        Files.createDirectories(folder);
        try (Safetensors weights = Safetensors.open(checkpoint)) {
            List<SafetensorsWriter.Entry> entries = new ArrayList<>();
            for (SafetensorsFile.Stored stored : weights.tensors().values()) {
                entries.add(SafetensorsWriter.Entry.of(
                        stored.name(),
                        type.isEmpty() ? stored.dtype() : type,
                        stored.shape(),
                        (first, values, count) -> weights.readFloats(stored, first, values, 0, count)));
            }
            SafetensorsWriter.writeModel(folder, entries, shardBytes);
        }
        for (String name : Merger.COMPANIONS) {
            if (Files.isRegularFile(checkpoint.resolve(name))) {
                Files.copy(checkpoint.resolve(name), folder.resolve(name));
            }
        }
    }
}
