package dev.starforge.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.data.config.ConfigException;
import dev.starforge.model.ModelFiles;
import dev.starforge.model.ModelSpec;
import dev.starforge.model.Quantization;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Support;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.plan.MachineFacts;
import dev.starforge.train.plan.MemoryPlan;
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

/** The table that each recorded machine gets for StarCoder2-3B and the default settings. */
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

    private static MachineFacts recorded(String name, String kind, double memory, double free, int version) {
        return new MachineFacts(
                kind,
                name,
                (long) (memory * (1L << 30)),
                (long) (free * (1L << 30)),
                kind.equals("cuda") ? version : 0,
                kind.equals("metal") ? version : 0,
                !kind.equals("cpu"));
    }

    @ParameterizedTest
    @CsvSource(textBlock = """
                    # name,            kind,  memory, free, version, dtype, mixed, attention, checkpointing, batch, accumulation, context, storage
                    RTX 2060 8 GB,     cuda,  8,      7.2,  75,      fp16,  fp16,  tiled,     true,          1, 16, 2048, nf4-double
                    RTX 3060 12 GB,    cuda,  12,     11.2, 86,      bf16,  bf16,  flash,     true,          2, 8, 2048, nf4-double
                    RTX 3070,          cuda,  8,      7.3,  86,      bf16,  bf16,  flash,     true,          1, 16, 2048, nf4-double
                    RTX 4090,          cuda,  24,     22.9, 89,      bf16,  bf16,  flash,     true,          2, 8, 2048, nf4-double
                    A100,              cuda,  80,     78,   80,      bf16,  bf16,  flash,     false,         2, 8, 2048, nf4-double
                    H200,              cuda,  141,    138,  90,      bf16,  bf16,  flash,     false,         2, 8, 2048, nf4-double
                    M1 Air 8 GB,       metal, 8,      5.3,  1,       fp16,  fp16,  flash,     true,          1, 16, 512, int8-128
                    M1 Pro 16 GB,      metal, 16,     10.6, 1,       fp16,  fp16,  flash,     true,          2, 8, 2048, int8-128
                    M2 Max,            metal, 32,     21,   2,       fp16,  fp16,  flash,     true,          2, 8, 2048, int8-128
                    M3,                metal, 24,     15.8, 3,       bf16,  bf16,  flash,     true,          2, 8, 2048, int8-128
                    M4 Max,            metal, 64,     48,   4,       bf16,  bf16,  flash,     true,          2, 8, 2048, int8-128
                    Intel Mac,         cpu,   16,     9,    0,       bf16,  no,    tiled,     true,          2, 8, 2048, nf4-double
                    Linux CPU,         cpu,   32,     28,   0,       bf16,  no,    tiled,     true,          2, 8, 2048, nf4-double
                    Windows CPU,       cpu,   16,     8,    0,       bf16,  no,    tiled,     true,          2, 8, 2048, nf4-double
                    """)
    void everyRecordedMachineHasItsTable(
            String name,
            String kind,
            double memory,
            double free,
            int version,
            String dtype,
            String mixed,
            String attention,
            String checkpointing,
            String batch,
            String accumulation,
            String context,
            String storage) {
        Adaptation adapted = adapt(recorded(name, kind, memory, free, version));
        RunConfig config = adapted.config();
        String attentionRow = adapted.rows().stream()
                .filter(row -> row.key().equals("device.attention"))
                .map(Adaptation.Row::effective)
                .findFirst()
                .orElseThrow();
        assertThat(Stream.of(
                                config.show("model.dtype"),
                                config.show("optimization.mixed_precision"),
                                attentionRow,
                                config.show("optimization.gradient_checkpointing"),
                                config.show("optimization.batch_size"),
                                config.show("optimization.gradient_accumulation_steps"),
                                config.show("model.context_window"),
                                config.quantization().toString())
                        .toList())
                .isEqualTo(List.of(dtype, mixed, attention, checkpointing, batch, accumulation, context, storage));
        adapted.rows().forEach(row -> assertThat(row.why()).isNotBlank());
    }

    @Test
    void whatThisBuildCannotComputeInIsSaid() {
        MachineFacts machine = new MachineFacts("cuda", "RTX 3060", 12L << 30, 11L << 30, 86, 0, false);
        Adaptation adapted = adapt(machine);
        assertThat(adapted.config().show("optimization.mixed_precision")).isEqualTo("no");
        assertThat(adapted.rows())
                .anyMatch(row -> row.key().equals("optimization.mixed_precision")
                        && row.why().contains("no kernels that compute in 16 bits on cuda"));
    }

    @Test
    void aStepKeepsItsSequencesWhenTheBatchHalves() {
        Adaptation adapted = adapt(
                recorded("RTX 3070", "cuda", 8, 7.3, 86),
                "optimization.batch_size=4",
                "optimization.gradient_accumulation_steps=3");
        assertThat(adapted.config().show("optimization.batch_size")).isEqualTo("1");
        assertThat(adapted.config().show("optimization.gradient_accumulation_steps"))
                .isEqualTo("12");
    }

    @Test
    void settingsForMetalAreObeyedThereAndNowhereElse() {
        String[] settings = {"quantization.mps_quant_dtype=nf4", "device.metal_precision=bf16"};
        Adaptation metal = adapt(recorded("M2 Max", "metal", 32, 21, 2), settings);
        assertThat(metal.config().quantization()).isEqualTo(new Quantization.Nf4(true));
        assertThat(metal.config().show("optimization.mixed_precision")).isEqualTo("bf16");
        Adaptation cuda = adapt(recorded("A100", "cuda", 80, 78, 80), "quantization.mps_quant_dtype=int8");
        assertThat(cuda.config().quantization()).isEqualTo(new Quantization.Nf4(true));
    }

    private static String rowsOf(Adaptation adapted, String key) {
        return adapted.rows().stream()
                .filter(row -> row.key().equals(key))
                .map(row -> row.configured() + " -> " + row.effective() + ": " + row.why())
                .collect(Collectors.joining("\n"));
    }

    /** The default gives way with a row that says why; what somebody asked for does not. */
    @Test
    void quantizationGivesWayOnlyWhereNobodyAskedForIt() {
        MachineFacts machine = recorded("Linux CPU", "cpu", 32, 28, 0);
        assertThat(rowsOf(fixed(machine), "quantization.load_in_4bit"))
                .isEqualTo("true -> true: the matrices of the blocks are nf4-double, other ones bf16");
        assertThat(rowsOf(fixed(machine, "quantization.load_in_8bit=true"), "quantization.load_in_4bit"))
                .isEqualTo("true -> false: load_in_8bit goes before it");
        assertThat(rowsOf(fixed(machine, "quantization.lora_enabled=false"), "quantization.load_in_4bit"))
                .isEqualTo("true -> false: every weight is trained, in float32");
        for (String key : List.of("load_in_4bit", "load_in_8bit")) {
            for (String whole : List.of("quantization.lora_enabled=false", "model.pretrained_model=scratch")) {
                assertThatThrownBy(() -> fixed(machine, whole, "quantization." + key + "=true"))
                        .isInstanceOf(ConfigException.class)
                        .hasMessageContaining("key quantization." + key + ": true: every weight is trained")
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

    @Test
    void aBaseThatIsQuantizedInItsFileStaysAsItIs() {
        MachineFacts machine = recorded("Linux CPU", "cpu", 32, 28, 0);
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
                            .endsWith("it is trained on as it is stored");
                    assertThatThrownBy(() -> Adaptation.of(
                                    config.set(List.of("quantization.load_in_4bit=true")), machine, blueprint, like))
                            .isInstanceOf(ConfigException.class)
                            .hasMessageContaining("the base is quantized already (Q4_K");
                }
                long stored = files.tensors().stream()
                        .mapToLong(ModelFiles.Stored::bytes)
                        .sum();
                long planned = MemoryPlan.of(files.spec(), adapted.config(), 1, 64, false, like)
                        .weights();
                assertThat((double) planned / stored).isBetween(block ? 0.98 : 0.2, block ? 1.02 : 0.7);
            }
        }
    }

    @Test
    void aDeviceWithoutKernelsForBlocksIsSaid() {
        MachineFacts machine = recorded("Linux CPU", "cpu", 32, 28, 0);
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
    void aModelThatDoesNotFitIsSaidWithWhatWould() {
        assertThatThrownBy(() -> adapt(recorded("old", "cuda", 2, 1.8, 75)))
                .isInstanceOf(TrainException.class)
                .hasMessageContaining("one sequence of 128 tokens needs")
                .hasMessageContaining("a device with more memory would do");
    }

    @Test
    void aNewModelIsTrainedWhole() {
        try (Device like = Tiny.cpu(1)) {
            MachineFacts machine = recorded("Linux CPU", "cpu", 32, 28, 0);
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
