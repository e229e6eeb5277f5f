package dev.starforge.train.merge;

import dev.starforge.model.ModelException;
import dev.starforge.model.convert.GgufQuantizer;
import dev.starforge.model.convert.QuantizationReport;
import dev.starforge.model.gguf.GgufFileType;
import dev.starforge.tensor.device.Device;
import dev.starforge.text.file.OutputLock;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.text.Tokenizers;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Quantizes a model to a GGUF file with its tokenizer, and writes a report of the error of each tensor beside it.
 *
 * @param model a folder with safetensors, or a GGUF file
 * @param imatrix the file of an importance matrix; empty to round to nearest
 * @param requantize whether quantized weights may be quantized again
 * @param device used to plan the tensors; computes nothing
 */
public record ModelQuantizer(Path model, GgufFileType type, Optional<Path> imatrix, boolean requantize, Device device) {
    /** The path of a file's report. */
    public static Path reportOf(Path out) {
        return out.resolveSibling(out.getFileName() + ".report.json");
    }

    /** Writes the file and the report, and returns the report. Continues the output of an interrupted process. */
    public ObjectNode write(Path out, GgufQuantizer.QuantizeProgress progress) {
        try (OutputLock _ = OutputLock.take(out, "starforge")) {
            GgufQuantizer.QuantizedModel result = new GgufQuantizer(model, type, imatrix, requantize, device)
                    .write(out, Tokenizers.metadata(model), progress);
            ObjectNode report = report(out, result);
            save(out, report);
            return report;
        } catch (IOException failure) {
            throw new ModelException(out, "cannot be locked: " + failure, failure);
        }
    }

    /** Writes the report beside its file. */
    public static void save(Path out, ObjectNode report) {
        try {
            Files.writeString(reportOf(out), Jackson.indented(report) + "\n");
        } catch (IOException failure) {
            throw new ModelException(reportOf(out), "cannot be written: " + failure, failure);
        }
    }

    private ObjectNode report(Path out, GgufQuantizer.QuantizedModel result) {
        List<QuantizationReport> tensors = result.tensors();
        ObjectNode report = Jackson.object();
        report.put("model", model.toString()).put("out", out.toString());
        report.put("type", type.name().toLowerCase(Locale.ROOT));
        imatrix.ifPresent(file -> report.put("imatrix", file.toString()));
        long bytes = tensors.stream().mapToLong(QuantizationReport::bytes).sum();
        report.put("bytes", bytes);
        report.put("bits_per_weight", 8.0 * bytes / result.weights());
        tensors.stream()
                .max(Comparator.comparingDouble(QuantizationReport::error))
                .ifPresent(worst ->
                        report.put("largest_relative_error", worst.error()).put("worst_tensor", worst.name()));
        report.put(
                "fell_back",
                tensors.stream().filter(QuantizationReport::fellBack).count());
        if (!result.notes().isEmpty()) {
            report.put("note", String.join("; ", result.notes()));
        }
        ArrayNode all = report.putArray("tensors");
        tensors.forEach(each -> all.add(Jackson.JSON.readTree(each.json())));
        return report;
    }
}
