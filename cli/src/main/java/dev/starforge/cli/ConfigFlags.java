package dev.starforge.cli;

import dev.starforge.data.Yaml;
import dev.starforge.train.RunConfig;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import picocli.CommandLine.Option;

/** The flags of every verb that takes a config: the file, and what is changed of it. */
final class ConfigFlags {
    @Option(names = "--config", paramLabel = "FILE", description = "Settings in YAML; docs/config.md has every key.")
    private Path file;

    @Option(
            names = "--set",
            paramLabel = "KEY=VALUE",
            description = "One setting, such as optimization.learning_rate=1e-4; may be repeated.")
    private List<String> assignments = new ArrayList<>();

    @Option(names = "--dataset", paramLabel = "DIR", description = "Same as --set data.path=DIR.")
    private String dataset;

    @Option(
            names = "--sequences",
            paramLabel = "FILE",
            description = "Same as --set data.train=FILE: token_sequences.json and the like.")
    private String sequences;

    @Option(names = "--epochs", paramLabel = "N", description = "Same as --set training.num_epochs=N.")
    private String epochs;

    @Option(names = "--output", paramLabel = "DIR", description = "Same as --set output.output_dir=DIR.")
    private String output;

    @Option(
            names = "--device",
            paramLabel = "NAME",
            description = "Same as --set device.force=NAME: cpu, cuda, metal or mps. One that is missing is an error.")
    private String device;

    /** The settings with all flags applied, on top of the file or of {@code otherwise}. */
    RunConfig read(RunConfig otherwise) {
        return read(otherwise, settings -> settings);
    }

    /** The same, where the settings of a file are changed before those of flags are applied. */
    RunConfig read(RunConfig otherwise, UnaryOperator<RunConfig> ofFile) {
        List<String> all = new ArrayList<>(assignments);
        add(all, "data.path", dataset);
        add(all, "data.train", sequences);
        add(all, "output.output_dir", output);
        if (epochs != null) {
            all.add("training.num_epochs=" + epochs);
        }
        if (device != null) {
            all.add("device.force=" + (device.equals("mps") ? "metal" : device.equals("auto") ? "null" : device));
        }
        return (file == null ? otherwise : ofFile.apply(RunConfig.read(file))).set(all);
    }

    private static void add(List<String> all, String key, String value) {
        if (value != null) {
            all.add(key + "=" + Yaml.quoted(value));
        }
    }
}
