package dev.starforge.cli.options;

import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import dev.starforge.train.config.RunConfig;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ParseResult;
import picocli.CommandLine.Spec;

/** Options that select the device and its threads. */
public final class DeviceSelectionFlags {
    private static final int MOST_THREADS = 1024;

    @Spec(Spec.Target.MIXEE)
    private CommandSpec command;

    @Option(
            names = "--device",
            defaultValue = "auto",
            paramLabel = "NAME",
            description = "Device to run on: auto, cpu, cuda, metal or reference. Fails if the requested device is not"
                    + " available. Default: auto.")
    private String name;

    @Option(
            names = "--device-index",
            defaultValue = "0",
            paramLabel = "N",
            description = "Index of the device among those of its kind. Default: 0.")
    private int index;

    @Option(
            names = "--threads",
            defaultValue = "0",
            paramLabel = "N",
            description = "Number of CPU threads; 0 uses one per physical core, performance cores only. Results do not"
                    + " depend on it. Default: 0.")
    private int threads;

    @Option(
            names = "--no-machine-code",
            description = "Run CPU kernels with the Java Vector API only, without generated machine code. `starforge"
                    + " devices` shows whether machine code is available.")
    private boolean noMachineCode;

    @Option(
            names = "--hide-cpu-flags",
            hidden = true,
            split = ",",
            paramLabel = "FLAG",
            description = "Ignore these CPU flags of /proc/cpuinfo, for tests: avx512_vnni, avx2.")
    private Set<String> hiddenCpuFlags = Set.of();

    @Option(
            names = "--hide-gpu-features",
            hidden = true,
            split = ",",
            paramLabel = "FEATURE",
            description = "Ignore these GPU features, for tests: dependent_launch (overlapping kernels), sm_90 (Hopper"
                    + " instructions; kernels are compiled for compute capability 8.0).")
    private Set<String> hiddenGpuFeatures = Set.of();

    /** Takes settings for options that are not given. */
    public void otherwise(RunConfig config) {
        ParseResult given = command.commandLine().getParseResult();
        name = given.hasMatchedOption("--device") ? name : config.device();
        index = given.hasMatchedOption("--device-index") ? index : config.deviceIndex();
        threads = given.hasMatchedOption("--threads") ? threads : config.threads();
    }

    /** Sets device and index from an option that implies both. */
    void force(String flag, String device, int number) {
        for (String other : List.of("--device", "--device-index")) {
            if (command.commandLine().getParseResult().hasMatchedOption(other)) {
                throw new ParameterException(command.commandLine(), flag + " and " + other + " cannot be combined");
            }
        }
        name = device;
        index = number;
    }

    public int index() {
        return index;
    }

    public Selection choose() {
        return choose(name, command.commandLine());
    }

    /** Selects a device by name. Unknown names are usage errors; missing devices are failures. */
    public static Selection choose(String name, CommandLine command) {
        List<String> known = Stream.concat(
                        Stream.of("auto", "mps"), Selection.backends().stream().map(Backend::name))
                .toList();
        if (!known.contains(ours(name, command))) {
            throw new ParameterException(
                    command, "--device: expected one of " + String.join(", ", known) + ", got " + name);
        }
        return Selection.choose(ours(name, command));
    }

    /** Maps PyTorch's mps to metal, and rejects accelerate. */
    static String ours(String name, CommandLine command) {
        if (name.equals("accelerate")) {
            throw new ParameterException(command, "--device accelerate: not supported; use --device cpu");
        }
        return name.equals("mps") ? "metal" : name;
    }

    /** The value of the setting {@code device.force} for a device name. */
    public static String setting(String name, CommandLine command) {
        return name.equals("auto") ? "null" : ours(name, command);
    }

    public Device open(Selection selection) {
        require("--device-index", index, Integer.MAX_VALUE);
        require("--threads", threads, MOST_THREADS);
        return selection
                .backend()
                .open(new DeviceOptions(index, threads, DeviceFlags.kernelCache(), hidden(selection)));
    }

    /** Features that the device must not use. Options for another kind of device are rejected. */
    private Set<String> hidden(Selection selection) {
        String device = selection.backend().name();
        requireKind("--no-machine-code", noMachineCode, "cpu", device);
        requireKind("--hide-cpu-flags", !hiddenCpuFlags.isEmpty(), "cpu", device);
        requireKind("--hide-gpu-features", !hiddenGpuFeatures.isEmpty(), "cuda", device);
        if (!device.equals("cpu")) {
            return hiddenGpuFeatures;
        }
        return noMachineCode ? DeviceOptions.NO_MACHINE_CODE : hiddenCpuFlags;
    }

    private void requireKind(String flag, boolean given, String kind, String device) {
        if (given && !device.equals(kind)) {
            throw new ParameterException(
                    command.commandLine(), flag + ": requires --device " + kind + ", but the device is " + device);
        }
    }

    private void require(String flag, int value, int most) {
        if (value < 0 || value > most) {
            throw new ParameterException(
                    command.commandLine(),
                    flag + ": expected at least 0" + (most < Integer.MAX_VALUE ? " and at most " + most : "") + ", got "
                            + value);
        }
    }
}
