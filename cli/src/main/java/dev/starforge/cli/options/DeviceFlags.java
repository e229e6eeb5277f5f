package dev.starforge.cli.options;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import picocli.CommandLine;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Options of commands that run a model: device, types and precision. */
public final class DeviceFlags {
    @Spec(Spec.Target.MIXEE)
    private CommandSpec command;

    @Mixin
    private DeviceSelectionFlags place;

    @Option(
            names = "--no-fallback",
            description =
                    "Fail if the device has no native kernel for an operation, instead of running the expansion of the"
                            + " operation.")
    private boolean noFallback;

    @Option(
            names = {"--weights", "--dtype"},
            paramLabel = "TYPE",
            converter = Storage.Parser.class,
            description = "Weight type in memory: `stored` (as in the file), or f32, bf16, f16, nf4, mxfp4, q8_0, q6_k,"
                    + " q5_k, q4_k, q3_k, q2_k, q5_0, q5_1, q4_0, q4_1 or int8 (groups of 128). Weights are"
                    + " converted while loading; `stored` weights of a type without device support become f32."
                    + " Default: stored; the type of --precision for logits and verify.")
    private Storage storage;

    @Option(
            names = "--kv-dtype",
            paramLabel = "TYPE",
            converter = Cached.class,
            description =
                    "KV cache type: f32, bf16, f16, or int8 with one scale per position and head. Default: f16; the"
                            + " type of --precision if that is bf16, and for verify. Not supported by logits.")
    private DType kv;

    @Option(
            names = "--precision",
            paramLabel = "TYPE",
            defaultValue = "f32",
            converter = Compute.class,
            description =
                    "Activation type: f32, bf16 or f16. Float weights are converted to it. Sums, softmax and logits"
                            + " are always computed in f32. Default: ${DEFAULT-VALUE}.")
    private DType compute;

    @Option(
            names = "--exact",
            description = "Keep activations in full precision in products with 4- to 8-bit weights. By default the CPU"
                    + " rounds them to int8 for generation, as llama.cpp does; other commands are always exact.")
    private boolean exact;

    /** An open device and the reason for its selection. */
    public record Opened(Device device, Selection selection) implements AutoCloseable {
        @Override
        public void close() {
            device.close();
        }
    }

    public Opened open() {
        Selection selection = place.choose();
        return new Opened(place.open(selection), selection);
    }

    void force(String flag, String device, int number) {
        place.force(flag, device, number);
    }

    public int deviceIndex() {
        return place.index();
    }

    public Fallback fallback() {
        PrintWriter err = command.commandLine().getErr();
        return new Fallback(!noFallback, Set.of(), err::println);
    }

    static final class Compute implements CommandLine.ITypeConverter<DType> {
        @Override
        public DType convert(String given) {
            return switch (given.toLowerCase(Locale.ROOT)) {
                case "f32", "fp32", "float32" -> DType.F32;
                case "bf16", "bfloat16" -> DType.BF16;
                case "f16", "fp16", "float16" -> DType.F16;
                default -> throw new CommandLine.TypeConversionException("expected f32, bf16 or f16, got " + given);
            };
        }
    }

    static final class Cached implements CommandLine.ITypeConverter<DType> {
        @Override
        public DType convert(String given) {
            if (given.equalsIgnoreCase("int8")) {
                return DType.I8;
            }
            try {
                return new Compute().convert(given);
            } catch (CommandLine.TypeConversionException unknown) {
                throw new CommandLine.TypeConversionException("expected f32, bf16, f16 or int8, got " + given);
            }
        }
    }

    /** Weight type in memory; empty for the stored type. */
    private record Storage(Optional<DType> converted) {
        private static final Storage AS_STORED = new Storage(Optional.empty());

        static final class Parser implements CommandLine.ITypeConverter<Storage> {
            @Override
            public Storage convert(String given) {
                if (given.equalsIgnoreCase("stored")) {
                    return AS_STORED;
                }
                if (given.equalsIgnoreCase("int8")) {
                    return new Storage(Optional.of(DType.INT8_128)); // as `train` has it: groups of 128
                }
                for (DType type : DType.values()) {
                    if (type.isWeight() && type.name().equalsIgnoreCase(given)) {
                        return new Storage(Optional.of(type));
                    }
                }
                throw new CommandLine.TypeConversionException("expected stored or a weight type, got " + given);
            }
        }
    }

    /** Precision for generation. Default: stored weights, a 16-bit KV cache and int8 activations for quantized weights. */
    public Precision precision() {
        DType cache = compute == DType.F32 ? DType.F16 : compute;
        return precision(Storage.AS_STORED, cache).withInt8Activations(!exact);
    }

    /** Precision for comparisons. Default: weights and KV cache in the compute type. */
    public Precision convertedPrecision() {
        return precision(new Storage(Optional.of(compute)), compute);
    }

    /** Rejects --kv-dtype for commands without a KV cache. */
    public void refuseKv() {
        if (kv != null) {
            throw new CommandLine.ParameterException(
                    command.commandLine(), "--kv-dtype: not supported by " + command.name());
        }
    }

    private Precision precision(Storage otherwise, DType otherwiseKv) {
        Precision precision = Precision.of(compute).withKv(kv == null ? otherwiseKv : kv);
        return (storage == null ? otherwise : storage)
                .converted()
                .map(precision::withStorage)
                .orElseGet(precision::withWeightsAsStored);
    }

    public static Path kernelCache() {
        String cache = System.getenv("XDG_CACHE_HOME");
        return cache == null || cache.isEmpty()
                ? Path.of(System.getProperty("user.home"), ".cache", "starforge", "kernels")
                : Path.of(cache, "starforge", "kernels");
    }
}
