package dev.starforge.cli.options;

import dev.starforge.train.config.RunConfig;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Option;

/** The flags of every verb that takes settings: their file, and what is changed of it. */
public final class ConfigFileFlags {
    @Option(
            names = "--config",
            paramLabel = "FILE",
            description = "Settings in YAML, one file for all verbs; docs/config.md has every key.")
    private Path file;

    @Option(
            names = "--set",
            paramLabel = "KEY=VALUE",
            description =
                    "One setting, such as optimization.learning_rate=1e-4; may be repeated, and wins over the file.")
    private List<String> assignments = new ArrayList<>();

    public boolean hasFile() {
        return file != null;
    }

    /** Defaults with the settings of the file, if there is one. */
    public RunConfig file(RunConfig defaults) {
        return file == null ? defaults : defaults.with(file);
    }

    /** Settings with those of {@code --set}, and then those of other flags. */
    public RunConfig flags(RunConfig config, List<String> others) {
        return config.set(assignments).set(others);
    }
}
