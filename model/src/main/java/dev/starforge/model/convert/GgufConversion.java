package dev.starforge.model.convert;

import dev.starforge.model.ModelException;
import dev.starforge.model.gguf.GgufValue;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.NullOps;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Converts a model folder to a GGUF file without quantization. {@link LoraMerger} does the same with an adapter. */
public final class GgufConversion {
    private GgufConversion() {}

    /**
     * Writes the file.
     *
     * @param dtype F32, BF16 or F16 for matrices; empty for the types of the folder
     * @param vocabulary the metadata of its tokenizer
     * @param device the device to plan the model for; nothing is computed on it
     * @return notes for the user about differences of the file
     */
    public static List<String> write(
            Path folder, Path file, String dtype, Map<String, GgufValue> vocabulary, Device device) {
        if (!Files.isDirectory(folder)) {
            throw new ModelException(folder, "is not a folder with safetensors; other models cannot be converted");
        }
        try (ModelFiles files = ModelFiles.open(folder)) {
            return export(files, dtype, device).write(file, name(folder), vocabulary);
        }
    }

    /** Returns the export of a folder. Throws if its tensors do not match its config. */
    static GgufExport export(ModelFiles files, String dtype, Device device) {
        NullOps shapes = new NullOps(device, Precision.FLOAT32, Fallback.QUIET);
        Map<String, Shape> tensors = files.spec().tensors(shapes.scope());
        tensors.forEach((name, shape) -> {
            if (!files.weights().has(name, shape)) {
                throw new ModelException(
                        files.path(),
                        "tensor " + name + ": the config asks for " + shape + ", the file has "
                                + files.weights().shape(name));
            }
        });
        Map<String, String> stored = new HashMap<>();
        files.tensors().forEach(tensor -> stored.put(tensor.name(), tensor.dtype()));
        return new GgufExport(
                files.config(),
                tensors,
                name -> (first, out, count) -> files.weights().read(name, first, out, count),
                name -> format(dtype.isEmpty() ? stored.getOrDefault(name, "F32") : dtype));
    }

    /** Returns the name of a model in its file: the name of its folder. */
    static String name(Path folder) {
        return folder.toAbsolutePath().normalize().getFileName().toString();
    }

    /** Returns the GGUF type for matrices of a safetensors type. */
    public static BlockFormat format(String type) {
        return List.of("BF16", "F16").contains(type) ? BlockFormat.valueOf(type) : BlockFormat.F32;
    }
}
