package dev.starforge.cli.options;

import dev.starforge.text.config.Yaml;
import dev.starforge.train.config.RunConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Options of commands that train or evaluate: settings and short forms for some of them. */
public final class TrainConfigFlags {
    @Spec(Spec.Target.MIXEE)
    private CommandSpec command;

    @Mixin
    private ConfigFileFlags settings;

    @Option(names = "--dataset", paramLabel = "DIR", description = "Dataset folder. Same as --set data.path=DIR.")
    private String dataset;

    @Option(
            names = "--sequences",
            paramLabel = "FILE",
            description = "Training data in JSON, e.g. token_sequences.json. Same as --set data.train=FILE.")
    private String sequences;

    @Option(
            names = "--epochs",
            paramLabel = "N",
            description = "Number of epochs. Same as --set training.num_epochs=N.")
    private String epochs;

    @Option(
            names = {"--out", "--output"},
            paramLabel = "DIR",
            description = "Output folder of the run. Same as --set output.output_dir=DIR.")
    private String output;

    @Option(
            names = "--device",
            paramLabel = "NAME",
            description = "Device: cpu, cuda, metal or mps. Fails if the device is not available. Same as --set"
                    + " device.force=NAME.")
    private String device;

    /** Applies all options to the configuration file, or to {@code otherwise} without one. */
    public RunConfig read(RunConfig otherwise) {
        return read(otherwise, settings -> settings);
    }

    /** As {@link #read(RunConfig)}; {@code ofFile} changes the settings of the file before options apply. */
    public RunConfig read(RunConfig otherwise, UnaryOperator<RunConfig> ofFile) {
        List<String> all = new ArrayList<>();
        add(all, "data.path", dataset);
        add(all, "data.train", sequences);
        add(all, "output.output_dir", output);
        if (epochs != null) {
            all.add("training.num_epochs=" + epochs);
        }
        if (device != null) {
            all.add("device.force=" + DeviceSelectionFlags.setting(device, command.commandLine()));
        }
        RunConfig begun = settings.hasFile() ? ofFile.apply(settings.file(RunConfig.defaults())) : otherwise;
        return settings.flags(begun, all);
    }

    private static void add(List<String> all, String key, String value) {
        if (value != null) {
            all.add(key + "=" + Yaml.quoted(value));
        }
    }
}
