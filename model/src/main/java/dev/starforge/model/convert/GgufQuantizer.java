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
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Quantizes a model to a GGUF file, with an importance matrix or to nearest, with some rows of one tensor in memory at a time. A killed
 * process resumes ({@link ResumableGgufWriter}). The source is a folder with safetensors or a GGUF file, whose metadata
 * are kept.
 *
 * @param model a folder or a file
 * @param requantize true if weights that are quantized already may be quantized again
 * @param imatrix the file of an {@link ImportanceMatrix}; empty to round to nearest
 * @param device the device to plan the model for; nothing is computed on it
 */
public record GgufQuantizer(Path model, GgufFileType type, Optional<Path> imatrix, boolean requantize, Device device) {
    private static final long BETWEEN_SYNCS = 64 << 20;

    /**
     * The result of a quantization.
     *
     * @param tensors in the order of the file
     * @param weights number of weights of all tensors
     * @param notes notes for the user about differences of the file
     */
    public record QuantizedModel(List<QuantizationReport> tensors, long weights, List<String> notes) {}

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
            Optional<ImportanceMatrix> importance = imatrix.map(ImportanceMatrix::read);
            if (importance.isPresent()) {
                contents = withImportance(contents, importance.get());
            }
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
                    TensorQuantizer quantizer = new TensorQuantizer(tensor, wanted, to, importance(importance, tensor));
                    quantizers.put(tensor.name(), quantizer);
                    entries.add(quantizer.entry());
                }
            }
            List<String> lines = new ResumableGgufWriter(out, contents.metadata(), entries, inputs(), BETWEEN_SYNCS)
                    .write(entry -> line(entry, quantizers), progress);
            long weights = contents.tensors().stream()
                    .mapToLong(tensor -> tensor.shape().size())
                    .sum();
            return new QuantizedModel(lines.stream().map(QuantizationReport::of).toList(), weights, contents.notes());
        }
    }

    private static String line(GgufWriter.GgufEntry entry, Map<String, TensorQuantizer> quantizers) {
        TensorQuantizer quantizer = quantizers.get(entry.name());
        return (quantizer == null ? QuantizationReport.unchanged(entry) : quantizer.result()).json();
    }

    /** Names the importance matrix in the metadata, by the keys of llama-quantize. */
    private GgufContents withImportance(GgufContents contents, ImportanceMatrix matrix) {
        if (contents.tensors().stream().noneMatch(each -> matrix.entries().containsKey(each.name()))) {
            throw new ModelException(
                    imatrix.orElseThrow(), "has no entry for any tensor of " + model + "; is it of another model?");
        }
        return contents.with(
                        "quantize.imatrix.file",
                        GgufValue.string(imatrix.orElseThrow().getFileName().toString()))
                .with("quantize.imatrix.dataset", GgufValue.string(String.join(", ", matrix.datasets())))
                .with(
                        "quantize.imatrix.entries_count",
                        GgufValue.u32(matrix.entries().size()))
                .with("quantize.imatrix.chunks_count", GgufValue.u32(matrix.chunks()));
    }

    private Optional<float[]> importance(Optional<ImportanceMatrix> matrix, GgufTensor tensor) {
        return matrix.flatMap(m -> m.importance(imatrix.orElseThrow(), tensor.name(), tensor.shape()));
    }

    private GgufFileType.QuantizationMix mixture(ModelFiles files, GgufContents contents) {
        boolean tied = contents.tensors().stream().noneMatch(each -> each.name().equals("output.weight"));
        String key = GgufNames.architecture(files.architecture()) + ".expert_count";
        int experts = contents.metadata().get(key) instanceof GgufValue.IntValue whole ? (int) whole.value() : 0;
        int heads = files.config().size("num_attention_heads");
        int queriesPerKey = heads / files.config().size("num_key_value_heads", heads);
        return new GgufFileType.QuantizationMix(
                type, files.config().size("num_hidden_layers"), queriesPerKey, experts, tied, imatrix.isPresent());
    }

    /** Throws if weights are quantized already: quantizing twice loses more than quantizing the original once. */
    private void refuseRounded(ModelFiles files, GgufContents contents) {
        boolean packed = files.config().has("quantization_config");
        List<String> other = contents.tensors().stream()
                .filter(each -> each.format().isQuantized() && each.format() != type.format())
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
            return Stream.concat(
                            files.filter(Files::isRegularFile).sorted().map(GgufQuantizer::facts),
                            imatrix.stream().map(GgufQuantizer::contentHash))
                    .collect(Collectors.joining("\n"));
        } catch (IOException | UncheckedIOException failure) {
            throw new ModelException(model, "cannot be read: " + failure, failure);
        }
    }

    /** An importance matrix may be collected again, so its content counts, not its age. */
    private static String contentHash(Path file) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file)));
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
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
