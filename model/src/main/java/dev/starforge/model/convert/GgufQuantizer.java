package dev.starforge.model.convert;

import dev.starforge.model.ModelException;
import dev.starforge.model.gguf.GgufFileType;
import dev.starforge.model.gguf.GgufNames;
import dev.starforge.model.gguf.GgufSource;
import dev.starforge.model.gguf.GgufValue;
import dev.starforge.model.gguf.GgufWriter;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.codec.BlockFormat;
import dev.starforge.tensor.device.Device;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Quantizes a model to a GGUF file, round to nearest, with some rows of one tensor in memory at a time. A killed
 * process resumes ({@link ResumableGgufWriter}). The source is a folder with safetensors or a GGUF file, whose metadata
 * are kept.
 *
 * @param model a folder or a file
 * @param requantize true if weights that are quantized already may be quantized again
 * @param device the device to plan the model for; nothing is computed on it
 */
public record GgufQuantizer(Path model, GgufFileType type, boolean requantize, Device device) {
    private static final long BETWEEN_SYNCS = 64 << 20;

    /**
     * The result of a quantization.
     *
     * @param tensors in the order of the file
     * @param notes notes for the user about differences of the file
     */
    public record QuantizedModel(List<QuantizationReport> tensors, List<String> notes) {}

    /** Receives the progress in bytes after each tensor. */
    public interface QuantizeProgress {
        void at(String tensor, long done, long total);
    }

    /**
     * Writes the file.
     *
     * @param vocabulary the metadata of a folder's tokenizer; ignored for a GGUF file
     */
    public QuantizedModel write(Path out, Map<String, GgufValue> vocabulary, QuantizeProgress progress) {
        try (ModelFiles files = ModelFiles.open(model)) {
            GgufContents contents = (files.fileWeights() instanceof GgufSource source
                            ? GgufContents.of(source.file())
                            : GgufConversion.export(files, "", device).contents(GgufConversion.name(model), vocabulary))
                    .with("general.file_type", GgufValue.u32(type.id()))
                    .with("general.quantization_version", GgufValue.u32(2));
            refuseRounded(files, contents);
            Map<String, TensorQuantizer> quantizers = new HashMap<>();
            List<GgufWriter.GgufEntry> entries = new ArrayList<>();
            GgufFileType.QuantizationMix mixture = mixture(files, contents);
            for (GgufTensor tensor : contents.tensors()) {
                BlockFormat wanted = GgufFileType.quantizes(tensor.name(), tensor.shape())
                        ? mixture.wanted(tensor.name(), tensor.shape())
                        : tensor.format();
                BlockFormat to = GgufFileType.fitting(wanted, tensor.shape());
                if (to == tensor.format()) {
                    entries.add(tensor.asStored());
                } else {
                    TensorQuantizer quantizer = new TensorQuantizer(tensor, wanted, to);
                    quantizers.put(tensor.name(), quantizer);
                    entries.add(quantizer.entry());
                }
            }
            List<String> lines = new ResumableGgufWriter(out, contents.metadata(), entries, inputs(), BETWEEN_SYNCS)
                    .write(entry -> line(entry, quantizers), progress);
            return new QuantizedModel(lines.stream().map(QuantizationReport::of).toList(), contents.notes());
        }
    }

    private static String line(GgufWriter.GgufEntry entry, Map<String, TensorQuantizer> quantizers) {
        TensorQuantizer quantizer = quantizers.get(entry.name());
        return (quantizer == null ? QuantizationReport.unchanged(entry) : quantizer.result()).json();
    }

    private GgufFileType.QuantizationMix mixture(ModelFiles files, GgufContents contents) {
        boolean tied = contents.tensors().stream().noneMatch(each -> each.name().equals("output.weight"));
        String key = GgufNames.architecture(files.architecture()) + ".expert_count";
        int experts = contents.metadata().get(key) instanceof GgufValue.IntValue whole ? (int) whole.value() : 0;
        return new GgufFileType.QuantizationMix(type, files.config().size("num_hidden_layers"), experts, tied);
    }

    /** Throws if weights are quantized already: quantizing twice loses more than quantizing the original once. */
    private void refuseRounded(ModelFiles files, GgufContents contents) {
        boolean packed = files.config().has("quantization_config");
        List<String> other = contents.tensors().stream()
                .filter(each ->
                        each.format().isQuantized() && !each.format().name().equals(type.name()))
                .map(each -> each.name() + " is " + each.format())
                .toList();
        if (!requantize && (packed || !other.isEmpty())) {
            throw new ModelException(
                    model,
                    "is quantized already (" + (packed ? "by its config" : other.getFirst())
                            + "), and quantizing it again loses more precision than quantizing the original; pass the original model, "
                            + "or --allow-requantize");
        }
    }

    /** Returns a description of the input files (path, size, time) that changes when an input changes. */
    private String inputs() {
        try (Stream<Path> files = Files.isDirectory(model) ? Files.list(model) : Stream.of(model)) {
            return files.filter(Files::isRegularFile)
                    .sorted()
                    .map(GgufQuantizer::facts)
                    .collect(Collectors.joining("\n"));
        } catch (IOException | UncheckedIOException failure) {
            throw new ModelException(model, "cannot be read: " + failure, failure);
        }
    }

    private static String facts(Path file) {
        try {
            return file.toAbsolutePath().normalize() + " " + Files.size(file) + " "
                    + Files.getLastModifiedTime(file).toMillis();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }
}
