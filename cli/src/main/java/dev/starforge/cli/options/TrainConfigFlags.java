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

/** The flags of every verb that trains or measures: the settings, and short forms of some. */
public final class TrainConfigFlags {
    @Spec(Spec.Target.MIXEE)
    private CommandSpec verb;

    @Mixin
    private ConfigFileFlags settings;

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
    public RunConfig read(RunConfig otherwise) {
        return read(otherwise, settings -> settings);
    }

    /** The same, where the settings of a file are changed before those of flags are applied. */
    public RunConfig read(RunConfig otherwise, UnaryOperator<RunConfig> ofFile) {
        List<String> all = new ArrayList<>();
        add(all, "data.path", dataset);
        add(all, "data.train", sequences);
        add(all, "output.output_dir", output);
        if (epochs != null) {
            all.add("training.num_epochs=" + epochs);
        }
        if (device != null) {
            all.add("device.force=" + DeviceSelectionFlags.setting(device, verb.commandLine()));
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
