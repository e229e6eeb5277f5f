package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starforge.cuda.CudaBackend;
import dev.starforge.kernels.Dispatch;
import dev.starforge.kernels.Sibling;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Op;
import dev.starforge.train.KnownModels;
import dev.starforge.train.TrainException;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.plan.Adaptation;
import dev.starforge.train.plan.MachineFacts;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The table that each recorded machine gets for StarCoder2-3B and the default settings, planned with what this build's
 * backends declare for it: their types, their attention, the weights they compute with. Not what we wish they had.
 */
final class RecordedMachinesTest {
    /** A device that declares what a backend does, and is not there. */
    private static final class Declared extends ForwardingDevice {
        private static final long CUBLAS = 32L << 20;

        private final Backend backend;

        Declared(Backend backend) {
            super(ConformanceMain.reference());
            this.backend = backend;
        }

        @Override
        public String name() {
            return backend.name();
        }

        @Override
        public Support supports(Op op, Spec... in) {
            return backend.supports(op, in);
        }

        /** A GPU's is that of its kernels, beside what cuBLASLt is given. */
        @Override
        public long workspace(Op op, Spec... in) {
            return backend.name().equals("cuda")
                    ? CUBLAS + Dispatch.workspace(Set.of(Sibling.MMA), op, in)
                    : super.workspace(op, in);
        }
    }

    private static Backend backend(String name) {
        return Selection.backends().stream()
                .filter(each -> each.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    private static MachineFacts recorded(String name, String kind, double memory, double free, String version) {
        long bytes = (long) (memory * (1L << 30));
        Probe.DetectedDevice found = kind.equals("cuda")
                ? CudaBackend.declare(
                        0,
                        name,
                        bytes,
                        false,
                        Character.digit(version.charAt(0), 10),
                        Character.digit(version.charAt(2), 10),
                        13_000)
                : backend(kind).probe().devices().getFirst();
        return new MachineFacts(
                kind,
                name,
                bytes,
                (long) (free * (1L << 30)),
                found.computes(),
                found.attention(),
                found.attentionReason());
    }

    private static Adaptation adapt(String kind, MachineFacts machine, String... settings) {
        try (Device like = new Declared(backend(kind))) {
            return Adaptation.of(
                    RunConfig.defaults().set(List.of(settings)),
                    machine,
                    KnownModels.find("bigcode/starcoder2-3b"),
                    like);
        }
    }

    private static String row(Adaptation adapted, String key) {
        return adapted.rows().stream()
                .filter(row -> row.key().equals(key))
                .map(Adaptation.Row::effective)
                .findFirst()
                .orElseThrow();
    }

    @ParameterizedTest
    @CsvSource(textBlock = """
        # name,         kind, memory, free, version, dtype, mixed, checkpointing, batch, accumulation, context, storage
        GTX 1660 6 GB,  cuda, 6,      5.4,  7.5,     fp16,  no,    true,          1, 16, 2048, nf4-double
        RTX 2060 8 GB,  cuda, 8,      7.3,  7.5,     fp16,  no,    true,          2, 8, 2048, nf4-double
        A10 24 GB,      cuda, 24,     22.0, 8.6,     bf16,  bf16,  false,         2, 8, 2048, nf4-double
        RTX 3070 8 GB,  cuda, 8,      7.3,  8.6,     bf16,  bf16,  true,          4, 4, 2048, nf4-double
        RTX 3060 12 GB, cuda, 12,     11.2, 8.6,     bf16,  bf16,  selective,     2, 8, 2048, nf4-double
        RTX 4090,       cuda, 24,     22.9, 8.9,     bf16,  bf16,  false,         2, 8, 2048, nf4-double
        A100,           cuda, 80,     78,   8.0,     bf16,  bf16,  false,         8, 2, 2048, nf4-double
        H200,           cuda, 141,    138,  9.0,     bf16,  bf16,  false,         16, 1, 2048, nf4-double
        Intel Mac,      cpu,  16,     9,    0,       bf16,  no,    true,          2, 8, 2048, nf4-double
        Linux CPU,      cpu,  32,     28,   0,       bf16,  no,    selective,     2, 8, 2048, nf4-double
        Windows CPU,    cpu,  16,     8,    0,       bf16,  no,    true,          2, 8, 2048, nf4-double
        """)
    void everyRecordedMachineMatchesItsTable(
            String name,
            String kind,
            double memory,
            double free,
            String version,
            String dtype,
            String mixed,
            String checkpointing,
            String batch,
            String accumulation,
            String context,
            String storage) {
        MachineFacts machine = recorded(name, kind, memory, free, version);
        Adaptation adapted = adapt(kind, machine);
        RunConfig config = adapted.config();
        assertThat(Stream.of(
                                config.show("model.dtype"),
                                config.show("optimization.mixed_precision"),
                                row(adapted, "device.attention"),
                                config.show("optimization.gradient_checkpointing"),
                                config.show("optimization.batch_size"),
                                config.show("optimization.gradient_accumulation_steps"),
                                config.show("model.context_window"),
                                config.quantization().toString())
                        .toList())
                .isEqualTo(List.of(
                        dtype, mixed, machine.attention(), checkpointing, batch, accumulation, context, storage));
        adapted.rows().forEach(each -> assertThat(each.why()).isNotBlank());
    }

    /** With blocks that run again, as the first design had them on CUDA, batch and context are at least what it printed. */
    @ParameterizedTest
    @CsvSource({"RTX 2060, 8, 7.3, 7.5, 2, 512", "RTX 3070, 8, 7.3, 8.6, 4, 1024", "RTX 4090, 24, 22.9, 8.9, 8, 2048"})
    void batchAndContextAreAtLeastThoseOfTheFirstDesign(
            String name, double memory, double free, String version, int batch, int context) {
        RunConfig config = adapt(
                        "cuda",
                        recorded(name, "cuda", memory, free, version),
                        "optimization.gradient_checkpointing=true")
                .config();
        assertThat(Integer.parseInt(config.show("optimization.batch_size"))).isGreaterThanOrEqualTo(batch);
        assertThat(Integer.parseInt(config.show("model.context_window"))).isGreaterThanOrEqualTo(context);
    }

    /**
     * Apple's GPUs, planned as if Metal ran the portable kernels, which are those that CUDA declares: it runs none yet, so that these
     * are plans alone. The default there is int8 groups, and blocks that run again; M1 and M2 emulate bf16.
     */
    @ParameterizedTest
    @CsvSource(textBlock = """
        # name,  memory, computes,     batch, accumulation, context
        M1 Air,  8,      F16 F32,      1, 16, 1024
        M1 Pro,  16,     F16 F32,      4, 4, 2048
        M1 Max,  32,     F16 F32,      16, 1, 2048
        M2 Pro,  16,     F16 F32,      4, 4, 2048
        M2 Max,  32,     F16 F32,      16, 1, 2048
        M3 Pro,  18,     BF16 F16 F32, 8, 2, 2048
        M3 Max,  36,     BF16 F16 F32, 16, 1, 2048
        M4 Pro,  24,     BF16 F16 F32, 8, 2, 2048
        M4 Max,  64,     BF16 F16 F32, 16, 1, 2048
        """)
    void everyAppleChipMatchesItsPlan(
            String name, int memory, String computes, String batch, String accumulation, String context) {
        RunConfig config = adapt("cuda", apple(name, memory, computes)).config();
        assertThat(Stream.of(
                                "optimization.batch_size",
                                "optimization.gradient_accumulation_steps",
                                "model.context_window",
                                "optimization.gradient_checkpointing")
                        .map(config::show))
                .containsExactly(batch, accumulation, context, "true");
        assertThat(config.quantization()).hasToString("int8-128");
    }

    /** The batch gives way before the context does, since a step keeps its sequences; at half the context there is room for two. */
    @Test
    void smallMacRunsTwoSequencesOfHalfLength() {
        RunConfig config = adapt("cuda", apple("M1 Air", 8, "F16 F32"), "model.context_window=512")
                .config();
        assertThat(config.show("optimization.batch_size")).isEqualTo("2");
        assertThat(config.show("model.context_window")).isEqualTo("512");
    }

    private static MachineFacts apple(String name, int memory, String computes) {
        List<DType> types = Stream.of(computes.split(" ")).map(DType::valueOf).toList();
        return MachineFacts.of(
                "metal",
                new Probe.DetectedDevice(0, name, (long) memory << 30, true, types, "plain", "portable kernels", ""));
    }

    /** A base of 3 billion in four bits does not fit. */
    @ParameterizedTest
    @CsvSource({"RTX 3050 with a desktop, 1.4, 8.6"})
    void reportsTooLittleMemory(String name, double free, String version) {
        assertThatThrownBy(() -> adapt("cuda", recorded(name, "cuda", 8, free, version)))
                .isInstanceOf(TrainException.class)
                .hasMessageStartingWith(name + ": one sequence of 128 tokens needs");
    }

    /** On the machine that this is, the table says what {@code devices} says. */
    @ParameterizedTest
    @ValueSource(strings = {"cpu", "reference", "cuda"})
    void tableMatchesDeviceCapabilities(String kind) {
        Optional<Probe.DetectedDevice> found =
                backend(kind).probe().devices().stream().findFirst();
        assumeTrue(found.isPresent(), backend(kind).probe().reason());
        Adaptation adapted = adapt(kind, MachineFacts.of(kind, found.get()));
        assertThat(row(adapted, "device.attention")).isEqualTo(found.get().attention());
        assertThat(found.get().computes()).contains(adapted.precisionOfRun().compute());
    }

    @Test
    void declaredCapabilitiesAreComputed() {
        for (String kind : List.of("cpu", "reference")) {
            Backend backend = backend(kind);
            try (Device device = backend.open(new DeviceOptions(0, kind.equals("cpu") ? 1 : 0, Path.of("target")))) {
                backend.probe()
                        .devices()
                        .getFirst()
                        .computes()
                        .forEach(type -> Cases.all().stream()
                                .filter(c -> TypedCases.of(c) == type)
                                .forEach(c -> assertThat(device.supports(c.op(), c.specs()))
                                        .as(c.toString())
                                        .isNotEqualTo(Support.NONE)));
            }
        }
    }
}
