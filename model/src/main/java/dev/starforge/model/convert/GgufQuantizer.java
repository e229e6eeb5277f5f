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
 * A model as a quantized GGUF file: each weight rounded to the nearest, a tensor's rows in memory at a time, and resumed where it was killed ({@link
 * GgufResume}). From a folder with safetensors, or from a GGUF file, whose metadata then stay.
 *
 * @param model a folder or a file
 * @param requantize whether weights that have been rounded once may be rounded again
 * @param device whose kinds of tensors the model is planned with; nothing is computed on it
 */
public record GgufQuantizer(Path model, GgufFileType type, boolean requantize, Device device) {
    private static final long BETWEEN_SYNCS = 64 << 20;

    /**
     * What was written.
     *
     * @param tensors in the order of the file
     * @param notes what a reader of the file should know
     */
    public record QuantizedModel(List<QuantizationReport> tensors, List<String> notes) {}

    /** Told after each tensor, of bytes. */
    public interface QuantizeProgress {
        void at(String tensor, long done, long total);
    }

    /**
     * Writes the file.
     *
     * @param vocabulary the metadata of a folder's tokenizer; those of a file stay
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

    /** Rounded twice, weights are worse than rounded once from what they were. */
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
                            + "), and to quantize it again loses more than once from the original; give the original, "
                            + "or allow it with --allow-requantize");
        }
    }

    /** The files that the result depends on, and what tells that one has changed. */
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
