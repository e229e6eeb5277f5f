package dev.starforge.cli.options;

import dev.starforge.train.config.RunConfig;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Option;

/** The flags of every command that takes settings: their file, and what is changed of it. */
public final class ConfigFileFlags {
    @Option(
            names = "--config",
            paramLabel = "FILE",
            description = "YAML configuration file, shared by all commands; see docs/config.md.")
    private Path file;

    @Option(
            names = "--set",
            paramLabel = "KEY=VALUE",
            description =
                    "Override one setting, e.g. optimization.learning_rate=1e-4. Can be repeated; takes precedence"
                            + " over --config.")
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
