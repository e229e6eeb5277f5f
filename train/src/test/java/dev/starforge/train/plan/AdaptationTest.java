package dev.starforge.train.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.Quantization;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.load.ModelSpec;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Support;
import dev.starforge.text.config.ConfigException;
import dev.starforge.train.KnownModels;
import dev.starforge.train.TrainException;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.run.Tiny;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The rules by which settings give way to a machine; the tables of recorded ones are in RecordedMachinesTest. */
final class AdaptationTest {
    private static final ModelSpec MODEL =
            KnownModels.find("bigcode/starcoder2-3b").orElseThrow();

    private static Adaptation adapt(MachineFacts machine, String... settings) {
        try (Device like = Tiny.cpu(1)) {
            return Adaptation.of(RunConfig.defaults().set(List.of(settings)), machine, Optional.of(MODEL), like);
        }
    }

    /** Without fitting anything into memory. */
    private static Adaptation fixed(MachineFacts machine, String... settings) {
        try (Device like = Tiny.cpu(1)) {
            return Adaptation.fixed(RunConfig.defaults().set(List.of(settings)), machine, Optional.of(MODEL), like);
        }
    }

    private static MachineFacts machine(String kind, double memory, double free, DType... computes) {
        return new MachineFacts(
                kind,
                "a machine",
                (long) (memory * (1L << 30)),
                (long) (free * (1L << 30)),
                List.of(computes),
                "tiled",
                "no T x T matrix");
    }

    /** {@code auto} is the first type that the device declares; any other is obeyed where it is declared at all. */
    @ParameterizedTest
    @CsvSource(textBlock = """
        # asked, declared,      computed in
        auto,    BF16 F16 F32,  bf16
        auto,    F16 F32,       fp16
        auto,    F32 BF16 F16,  no
        auto,    F32,           no
        bf16,    F32 BF16 F16,  bf16
        fp16,    BF16 F16 F32,  fp16
        no,      BF16 F16 F32,  no
        """)
    void activationsHaveATypeThatTheDeviceDeclares(String asked, String declared, String expected) {
        DType[] computes = Stream.of(declared.split(" ")).map(DType::valueOf).toArray(DType[]::new);
        Adaptation adapted = fixed(machine("cuda", 80, 78, computes), "optimization.mixed_precision=" + asked);
        assertThat(adapted.config().show("optimization.mixed_precision")).isEqualTo(expected);
        assertThat(adapted.precisionOfRun().compute()).isEqualTo(RunConfig.type(expected));
        if (!asked.equals(expected)) {
            assertThat(rowsOf(adapted, "optimization.mixed_precision"))
                    .contains("cuda computes in " + declared.replace(" ", ", "));
        }
    }

    @Test
    void aTypeThatTheDeviceLacksIsRefused() {
        assertThatThrownBy(
                        () -> fixed(machine("cuda", 8, 7.3, DType.F32, DType.F16), "optimization.mixed_precision=bf16"))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining(
                        "key optimization.mixed_precision: bf16: cuda computes in F32, F16; auto selects the fastest");
    }

    /** A number is obeyed; what nobody set takes what there is room for, and a step keeps its sequences. */
    @Test
    void theDefaultBatchGrowsOnlyOnAGpu() {
        MachineFacts gpu = machine("cuda", 80, 78, DType.F32);
        RunConfig grown = adapt(gpu, "optimization.batch_size=auto").config();
        int batch = Integer.parseInt(grown.show("optimization.batch_size"));
        assertThat(batch).isGreaterThan(2);
        assertThat(batch * Integer.parseInt(grown.show("optimization.gradient_accumulation_steps")))
                .isEqualTo(16);
        RunConfig odd = adapt(gpu, "optimization.gradient_accumulation_steps=3").config();
        assertThat(odd.show("optimization.batch_size")).isEqualTo("2");
        assertThat(adapt(gpu, "optimization.batch_size=2").config().show("optimization.batch_size"))
                .isEqualTo("2");
        RunConfig cpu = adapt(machine("cpu", 80, 78, DType.F32)).config();
        assertThat(cpu.yaml()).contains("  batch_size: 2\n").contains("  context_window: 2048\n");
        assertThat(RunConfig.defaults().yaml()).contains("  batch_size: auto\n").contains("  context_window: auto\n");
    }

    /** Only once a batch of one does not fit either. */
    @Test
    void theDefaultContextShrinksIfMemoryIsShort() {
        Adaptation adapted = adapt(machine("cuda", 4, 3.2, DType.F32));
        int context = Integer.parseInt(adapted.config().show("model.context_window"));
        assertThat(context).isBetween(128, 1024);
        assertThat(adapted.config().show("optimization.batch_size")).isEqualTo("1");
        assertThat(rowsOf(adapted, "model.context_window"))
                .matches("auto -> " + context + ": plan \\d\\.\\d\\d GiB of \\d\\.\\d\\d GiB available");
    }

    @Test
    void attentionIsTheKernelThatTheDeviceDeclares() {
        MachineFacts machine = machine("cuda", 80, 78, DType.F32);
        assertThat(rowsOf(fixed(machine), "device.attention")).isEqualTo("auto -> tiled: no T x T matrix");
        assertThatThrownBy(() -> fixed(machine, "device.attention=flash"))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("no such kernel (no T x T matrix); auto takes tiled");
    }

    @Test
    void halvingTheBatchKeepsTheSequencesPerStep() {
        Adaptation adapted = adapt(
                machine("cuda", 8, 7.3, DType.F32),
                "optimization.batch_size=4",
                "optimization.gradient_accumulation_steps=3");
        assertThat(adapted.config().show("optimization.batch_size")).isEqualTo("2");
        assertThat(adapted.config().show("optimization.gradient_accumulation_steps"))
                .isEqualTo("6");
    }

    @Test
    void settingsForMetalAreObeyedThereAndNowhereElse() {
        String[] settings = {"quantization.mps_quant_dtype=nf4", "device.metal_precision=bf16"};
        Adaptation metal = adapt(machine("metal", 32, 21, DType.BF16, DType.F16, DType.F32), settings);
        assertThat(metal.config().quantization()).isEqualTo(new Quantization.Nf4(true));
        assertThat(metal.config().show("optimization.mixed_precision")).isEqualTo("bf16");
        Adaptation cuda = adapt(machine("cuda", 80, 78, DType.BF16, DType.F32), "quantization.mps_quant_dtype=int8");
        assertThat(cuda.config().quantization()).isEqualTo(new Quantization.Nf4(true));
    }

    @Test
    void onMetalFourBitIsInt8GroupsWithCheckpointing() {
        Adaptation metal = adapt(machine("metal", 32, 21, DType.BF16, DType.F16, DType.F32));
        assertThat(metal.config().quantization()).isEqualTo(new Quantization.Int8(128));
        assertThat(rowsOf(metal, "quantization.load_in_4bit"))
                .isEqualTo("true -> false: on Metal load_in_4bit selects int8 groups; see quantization.metal_storage");
        assertThat(rowsOf(metal, "optimization.gradient_checkpointing"))
                .isEqualTo("auto -> true: memory is shared with the system");
        assertThat(metal.config().show("optimization.gradient_checkpointing")).isEqualTo("true");
        Adaptation cuda = adapt(machine("cuda", 32, 30, DType.BF16, DType.F32));
        assertThat(cuda.config().quantization()).isEqualTo(new Quantization.Nf4(true));
        assertThat(cuda.config().show("optimization.gradient_checkpointing")).isNotEqualTo("true");
    }

    private static String rowsOf(Adaptation adapted, String key) {
        return adapted.rows().stream()
                .filter(row -> row.key().equals(key))
                .map(row -> row.configured() + " -> " + row.effective() + ": " + row.why())
                .collect(Collectors.joining("\n"));
    }

    /** The default gives way with a row that says why; what somebody asked for does not. */
    @Test
    void onlyDefaultQuantizationIsTurnedOff() {
        MachineFacts machine = machine("cpu", 32, 28, DType.F32, DType.BF16);
        assertThat(rowsOf(fixed(machine), "quantization.load_in_4bit"))
                .isEqualTo("true -> true: the matrices of the blocks are nf4-double, other weights bf16");
        assertThat(rowsOf(fixed(machine, "quantization.load_in_8bit=true"), "quantization.load_in_4bit"))
                .isEqualTo("true -> false: load_in_8bit overrides it");
        assertThat(rowsOf(fixed(machine, "quantization.lora_enabled=false"), "quantization.load_in_4bit"))
                .isEqualTo("true -> false: all weights are trained in float32");
        for (String key : List.of("load_in_4bit", "load_in_8bit")) {
            for (String whole : List.of("quantization.lora_enabled=false", "model.pretrained_model=scratch")) {
                assertThatThrownBy(() -> fixed(machine, whole, "quantization." + key + "=true"))
                        .isInstanceOf(ConfigException.class)
                        .hasMessageContaining("key quantization." + key + ": true: all weights are trained")
                        .hasMessageContaining("set it to false");
            }
        }
        assertThatThrownBy(() -> fixed(machine, "quantization.load_in_8bit=true", "quantization.group_size=48"))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("quantization.group_size: 48: expected a multiple of 32");
        assertThat(fixed(machine, "quantization.bnb_4bit_use_double_quant=false")
                        .config()
                        .quantization())
                .isEqualTo(new Quantization.Nf4(false));
    }

    /** Eight bits are more than the four that were asked for, so they are quantized again; by default they are not. */
    @Test
    void fewerBitsThanTheFileHasAreHonoured() {
        MachineFacts machine = machine("cpu", 32, 28, DType.F32, DType.BF16);
        try (Device like = Tiny.cpu(1);
                ModelFiles files = ModelFiles.open(Path.of("..", "golden", "gguf", "micro-Q8_0.gguf"))) {
            RunConfig config = RunConfig.defaults().set(List.of("model.context_window=64"));
            Optional<ModelSpec> blueprint = Optional.of(files.spec());
            assertThat(Adaptation.of(config, machine, blueprint, like).config().quantization())
                    .isEqualTo(Quantization.NONE);
            RunConfig asked = config.set(List.of("quantization.load_in_4bit=true"));
            Adaptation fewer = Adaptation.of(asked, machine, blueprint, like);
            assertThat(fewer.config().quantization()).isEqualTo(new Quantization.Nf4(true));
            assertThat(rowsOf(fewer, "quantization.load_in_4bit"))
                    .contains("Q8_0, 8.5 bits per weight", "quantized again");
            RunConfig eight = config.set(List.of("quantization.load_in_8bit=true"));
            assertThat(Adaptation.of(eight, machine, blueprint, like).config().quantization())
                    .as("8.5 bits are what eight bits take")
                    .isEqualTo(Quantization.NONE);
            RunConfig off = config.set(List.of("quantization.load_in_8bit=false"));
            assertThat(Adaptation.of(off, machine, blueprint, like).config().quantization())
                    .as("nothing is asked for")
                    .isEqualTo(Quantization.NONE);
        }
    }

    @Test
    void aBaseThatIsQuantizedInItsFileStaysAsItIs() {
        MachineFacts machine = machine("cpu", 32, 28, DType.F32, DType.BF16);
        for (String type : List.of("Q4_K", "F16")) {
            Path file = Path.of("..", "golden", "gguf", "micro-" + type + ".gguf");
            try (Device like = Tiny.cpu(1);
                    ModelFiles files = ModelFiles.open(file)) {
                RunConfig config = RunConfig.defaults().set(List.of("model.context_window=64"));
                Optional<ModelSpec> blueprint = Optional.of(files.spec());
                Adaptation adapted = Adaptation.of(config, machine, blueprint, like);
                boolean block = type.equals("Q4_K");
                assertThat(adapted.config().quantization().equals(Quantization.NONE))
                        .isEqualTo(block);
                if (block) {
                    assertThat(rowsOf(adapted, "quantization.load_in_4bit"))
                            .startsWith("true -> false: the base is quantized already (Q4_K")
                            .endsWith("the stored weights are used as they are");
                    RunConfig asked = config.set(List.of("quantization.load_in_4bit=true"));
                    Adaptation same = Adaptation.of(asked, machine, blueprint, like);
                    assertThat(same.config().quantization()).isEqualTo(Quantization.NONE);
                    assertThat(rowsOf(same, "quantization.load_in_4bit"))
                            .startsWith("true -> false: the base is quantized already (Q4_K, 4.5 bits");
                }
                long stored = files.tensors().stream()
                        .mapToLong(ModelFiles.TensorInfo::bytes)
                        .sum();
                long planned = MemoryPlan.of(files.spec(), adapted.config(), 1, 64, like)
                        .weights();
                assertThat((double) planned / stored).isBetween(block ? 0.98 : 0.2, block ? 1.02 : 0.7);
            }
        }
    }

    @Test
    void aDeviceWithoutKernelsForAWeightTypeIsReported() {
        MachineFacts machine = machine("cpu", 32, 28, DType.F32, DType.BF16);
        try (Device cpu = Tiny.cpu(1)) {
            InvocationHandler asCpu =
                    (proxy, method, arguments) -> method.getName().equals("supports")
                                    && Stream.of((Spec[]) arguments[1])
                                            .anyMatch(spec -> spec.dtype().isQuantized())
                            ? Support.NONE
                            : method.invoke(cpu, arguments);
            Device narrow = (Device)
                    Proxy.newProxyInstance(Device.class.getClassLoader(), new Class<?>[] {Device.class}, asCpu);
            Adaptation adapted = Adaptation.of(RunConfig.defaults(), machine, Optional.of(MODEL), narrow);
            assertThat(adapted.config().quantization()).isEqualTo(Quantization.NONE);
            assertThat(rowsOf(adapted, "quantization.load_in_4bit"))
                    .isEqualTo("true -> false: this build has no kernels for weights of NF4_DOUBLE on cpu");
            assertThatThrownBy(() -> Adaptation.of(
                            RunConfig.defaults().set(List.of("quantization.load_in_4bit=true")),
                            machine,
                            Optional.of(MODEL),
                            narrow))
                    .isInstanceOf(ConfigException.class)
                    .hasMessageContaining("no kernels for weights of NF4");
        }
    }

    @Test
    void aModelThatDoesNotFitIsReportedWithAdvice() {
        assertThatThrownBy(() -> adapt(machine("cuda", 2, 1.8, DType.F16, DType.F32)))
                .isInstanceOf(TrainException.class)
                .hasMessageContaining("one sequence of 128 tokens needs")
                .hasMessageContaining("a device with more memory");
    }

    @Test
    void aNewModelIsTrainedWhole() {
        try (Device like = Tiny.cpu(1)) {
            MachineFacts machine = machine("cpu", 32, 28, DType.F32, DType.BF16);
            Adaptation adapted = Adaptation.of(
                    RunConfig.defaults().set(List.of("model.pretrained_model=scratch")),
                    machine,
                    Optional.empty(),
                    like);
            assertThat(adapted.config().show("quantization.lora_enabled")).isEqualTo("false");
            assertThat(adapted.config().quantization()).isEqualTo(Quantization.NONE);
            assertThatThrownBy(() -> Adaptation.of(
                            RunConfig.defaults()
                                    .set(List.of("model.pretrained_model=scratch", "quantization.lora_enabled=true")),
                            machine,
                            Optional.empty(),
                            like))
                    .isInstanceOf(ConfigException.class)
                    .hasMessageContaining("quantization.lora_enabled");
        }
    }
}
