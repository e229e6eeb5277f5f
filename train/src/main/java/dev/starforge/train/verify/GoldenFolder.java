package dev.starforge.train.verify;

import dev.starforge.model.ModelException;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import tools.jackson.databind.node.ObjectNode;

/**
 * A folder of results of independent implementations: models with logits, losses and gradients in {@code models}, and
 * tokenizers, sampling distributions, quantized matrices and GGUF files. All results are computed again and compared;
 * each comparison is one report with the field {@code pass}.
 */
public record GoldenFolder(Path folder, Device device, Precision precision, Fallback fallback) {
    /** Receives each report. */
    @FunctionalInterface
    public interface Reports {
        /** @param section tokenizers, sampling, int8_groups or gguf */
        void add(String section, ObjectNode report);
    }

    /** The names of the models in a golden folder, sorted. */
    public static List<String> models(Path folder) throws IOException {
        Path models = folder.resolve("models");
        if (!Files.isDirectory(models)) {
            throw new ModelException(folder, "expected a folder that contains models/");
        }
        List<String> names;
        try (Stream<Path> entries = Files.list(models)) {
            names = entries.filter(Files::isDirectory)
                    .map(path -> path.getFileName().toString())
                    .sorted()
                    .toList();
        }
        if (names.isEmpty()) {
            throw new ModelException(models, "expected one folder per model");
        }
        return names;
    }

    /**
     * Verifies one model. A model that fails to load is a failed report with the reason.
     *
     * @param replays number of repetitions of a captured decode step, which must be bit-identical
     * @param dump output file for the computed results, with the tensor names of {@code expected.safetensors}
     */
    public ObjectNode model(String name, GoldenTolerances tolerances, int replays, Optional<Path> dump) {
        try {
            GoldenModel golden =
                    new GoldenModel(folder.resolve("models").resolve(name), device, precision, fallback, tolerances);
            ObjectNode report = golden.verify(replays);
            dump.ifPresent(to -> SafetensorsFile.write(to.resolve(name + ".safetensors"), golden.computed()));
            return report;
        } catch (ModelException | TensorException unusable) {
            return Jackson.object()
                    .put("name", name)
                    .put("error", unusable.getMessage())
                    .put("pass", false);
        }
    }

    /** Verifies everything but models: tokenizers, sampling, int8 groups, and one model in many GGUF types. */
    public void formats(Reports reports) throws IOException {
        for (Path tokenizer : entries("tokenizers", "")) {
            if (Files.exists(tokenizer.resolve("expected.json"))) {
                reports.add("tokenizers", GoldenFormats.tokenizer(tokenizer));
            }
        }
        Path sampling = folder.resolve("sampling.safetensors");
        if (Files.exists(sampling)) {
            try (SafetensorsFile file = SafetensorsFile.open(sampling)) {
                GoldenFormats.SAMPLINGS
                        .keySet()
                        .forEach(name -> reports.add("sampling", GoldenFormats.sampling(file, name)));
            }
        }
        Path int8 = folder.resolve("int8_group.safetensors");
        if (Files.exists(int8)) {
            try (SafetensorsFile file = SafetensorsFile.open(int8)) {
                for (String tensor : file.tensors().keySet()) {
                    if (tensor.endsWith(".w")) {
                        String name = tensor.substring(0, tensor.length() - 2);
                        reports.add("int8_groups", GoldenFormats.int8Groups(file, name));
                    }
                }
            }
        }
        for (Path file : entries("gguf", ".gguf")) {
            String name = file.getFileName().toString();
            if (name.startsWith("micro-")) {
                String type = name.substring("micro-".length(), name.length() - ".gguf".length());
                reports.add("gguf", GoldenFormats.gguf(folder.resolve("gguf"), type, device, precision, fallback));
            }
        }
    }

    /** The entries of a subfolder with a name suffix, sorted; empty if the subfolder does not exist. */
    private List<Path> entries(String part, String ending) throws IOException {
        Path parent = folder.resolve(part);
        if (!Files.isDirectory(parent)) {
            return List.of();
        }
        try (Stream<Path> entries = Files.list(parent)) {
            return entries.filter(path -> path.toString().endsWith(ending))
                    .sorted()
                    .toList();
        }
    }
}
