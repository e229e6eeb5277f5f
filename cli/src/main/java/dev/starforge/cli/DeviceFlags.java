package dev.starforge.cli;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.DeviceOptions;
import dev.starforge.tensor.Fallback;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Selection;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Set;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** The flags of every verb that computes: where, and how. */
final class DeviceFlags {
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
            description = "Worker threads on the CPU; 0 is one for each core. Results do not depend on it.")
    private int threads;

    @Option(
            names = "--no-fallback",
            description = "Fail, naming the operation, where the device has no kernel of its own for it.")
    private boolean noFallback;

    @Option(
            names = "--dtype",
            paramLabel = "TYPE",
            defaultValue = "F32",
            description = "How weights are kept: F32, BF16 or F16. Default: F32.")
    private DType storage;

    @Option(
            names = "--kv-dtype",
            paramLabel = "TYPE",
            defaultValue = "F32",
            description = "How cached keys and values are kept: F32, BF16 or F16. Default: F32.")
    private DType kv;

    /** A device that was opened, and why this one. */
    record Opened(Device device, Selection selection) implements AutoCloseable {
        @Override
        public void close() {
            device.close();
        }
    }

    Opened open() {
        Selection selection = Selection.choose(name.equals("mps") ? "metal" : name);
        Device device = selection.backend().open(new DeviceOptions(index, threads, kernelCache()));
        return new Opened(device, selection);
    }

    Fallback fallback() {
        PrintWriter err = verb.commandLine().getErr();
        return new Fallback(!noFallback, Set.of(), err::println);
    }

    Precision precision() {
        return Precision.FLOAT32.withStorage(storage).withKv(kv);
    }

    static Path kernelCache() {
        String cache = System.getenv("XDG_CACHE_HOME");
        return cache == null || cache.isEmpty()
                ? Path.of(System.getProperty("user.home"), ".cache", "starforge", "kernels")
                : Path.of(cache, "starforge", "kernels");
    }
}
