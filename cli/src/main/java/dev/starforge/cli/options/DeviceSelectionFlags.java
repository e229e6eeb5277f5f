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

/** The flags that say where to compute, for verbs in which how is not a matter of choice. */
public final class DeviceSelectionFlags {
    private static final int MOST_THREADS = 1024;

    @Spec(Spec.Target.MIXEE)
    private CommandSpec verb;

    @Option(
            names = "--device",
            defaultValue = "auto",
            paramLabel = "NAME",
            description =
                    "auto, cpu, cuda, metal or reference. One that is named and missing is an error. Default: auto.")
    private String name;

    @Option(names = "--device-index", defaultValue = "0", paramLabel = "N", description = "Which one of its kind.")
    private int index;

    @Option(
            names = "--threads",
            defaultValue = "0",
            paramLabel = "N",
            description =
                    "Worker threads on the CPU; 0 is one for each physical core, of the fast kind where there are two. "
                            + "Results do not depend on it.")
    private int threads;

    @Option(
            names = "--no-machine-code",
            description =
                    "The CPU computes with Java's vectors alone: no executable memory, and none of the instructions"
                            + " that they lack. `devices` says whether there is machine code for this machine.")
    private boolean noMachineCode;

    @Option(
            names = "--hide-cpu-flags",
            hidden = true,
            split = ",",
            paramLabel = "FLAG",
            description = "Machine code for a CPU without these flags of /proc/cpuinfo, to test it: avx512_vnni, avx2.")
    private Set<String> hiddenCpuFlags = Set.of();

    @Option(
            names = "--hide-gpu-features",
            hidden = true,
            split = ",",
            paramLabel = "FEATURE",
            description =
                    "Kernels for a GPU without these, to test them: dependent_launch (kernels that overlap), sm_90"
                            + " (Hopper's own instructions; kernels are compiled for compute capability 8.0).")
    private Set<String> hiddenGpuFeatures = Set.of();

    /** Takes from settings what no flag says. */
    public void otherwise(RunConfig config) {
        ParseResult given = verb.commandLine().getParseResult();
        name = given.hasMatchedOption("--device") ? name : config.device();
        index = given.hasMatchedOption("--device-index") ? index : config.deviceIndex();
        threads = given.hasMatchedOption("--threads") ? threads : config.threads();
    }

    /** Takes both from a flag that says them at once. */
    void force(String flag, String device, int number) {
        for (String other : List.of("--device", "--device-index")) {
            if (verb.commandLine().getParseResult().hasMatchedOption(other)) {
                throw new ParameterException(
                        verb.commandLine(), flag + ": says what " + other + " says; give one of them");
            }
        }
        name = device;
        index = number;
    }

    public int index() {
        return index;
    }

    public Selection choose() {
        return choose(name, verb.commandLine());
    }

    /** The device of a name; one that is not there on this machine is another kind of error than one that is nowhere. */
    public static Selection choose(String name, CommandLine verb) {
        List<String> known = Stream.concat(
                        Stream.of("auto", "mps"), Selection.backends().stream().map(Backend::name))
                .toList();
        if (!known.contains(ours(name, verb))) {
            throw new ParameterException(
                    verb, "--device: expected one of " + String.join(", ", known) + ", got " + name);
        }
        return Selection.choose(ours(name, verb));
    }

    /** A device by our name: PyTorch says mps where we say metal, and Apple's Accelerate has given way to the CPU device. */
    static String ours(String name, CommandLine verb) {
        if (name.equals("accelerate")) {
            throw new ParameterException(
                    verb, "--device accelerate: is no device here; the CPU's vectors replace it: --device cpu");
        }
        return name.equals("mps") ? "metal" : name;
    }

    /** The same as the setting {@code device.force} has it. */
    public static String setting(String name, CommandLine verb) {
        return name.equals("auto") ? "null" : ours(name, verb);
    }

    public Device open(Selection selection) {
        require("--device-index", index, Integer.MAX_VALUE);
        require("--threads", threads, MOST_THREADS);
        return selection
                .backend()
                .open(new DeviceOptions(index, threads, DeviceFlags.kernelCache(), hidden(selection)));
    }

    /** What the chosen device does without; flags that are for another kind are refused, not ignored. */
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
                    verb.commandLine(), flag + ": is for --device " + kind + ", and the device is " + device);
        }
    }

    private void require(String flag, int value, int most) {
        if (value < 0 || value > most) {
            throw new ParameterException(
                    verb.commandLine(),
                    flag + ": expected at least 0" + (most < Integer.MAX_VALUE ? " and at most " + most : "") + ", got "
                            + value);
        }
    }
}
