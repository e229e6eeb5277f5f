package dev.starforge.cli.options;

import dev.starforge.train.config.RunConfig;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Option;

/** Options for settings: the configuration file and single settings. */
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

    /** Applies the configuration file, if given. */
    public RunConfig file(RunConfig defaults) {
        return file == null ? defaults : defaults.with(file);
    }

    /** Applies {@code --set}, then the settings of other options. */
    public RunConfig flags(RunConfig config, List<String> others) {
        return config.set(assignments).set(others);
    }
}
