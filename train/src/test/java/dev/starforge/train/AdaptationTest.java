package dev.starforge.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.Blueprint;
import dev.starforge.tensor.Device;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The table that each recorded machine gets for StarCoder2-3B and the default settings. */
final class AdaptationTest {
    private static final Blueprint MODEL =
            KnownModels.find("bigcode/starcoder2-3b").orElseThrow();

    private static Adaptation adapt(MachineFacts machine, String... settings) {
        try (Device like = Tiny.cpu(1)) {
            return Adaptation.of(RunConfig.defaults().set(List.of(settings)), machine, Optional.of(MODEL), like);
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
                    RTX 2060 8 GB,     cuda,  8,      7.2,  75,      fp16,  fp16,  tiled,     true,          1, 16, 2048, NF4
                    RTX 3060 12 GB,    cuda,  12,     11.2, 86,      bf16,  bf16,  flash,     true,          2, 8, 2048, NF4
                    RTX 3070,          cuda,  8,      7.3,  86,      bf16,  bf16,  flash,     true,          1, 16, 2048, NF4
                    RTX 4090,          cuda,  24,     22.9, 89,      bf16,  bf16,  flash,     true,          2, 8, 2048, NF4
                    A100,              cuda,  80,     78,   80,      bf16,  bf16,  flash,     false,         2, 8, 2048, NF4
                    H200,              cuda,  141,    138,  90,      bf16,  bf16,  flash,     false,         2, 8, 2048, NF4
                    M1 Air 8 GB,       metal, 8,      5.3,  1,       fp16,  fp16,  flash,     true,          1, 16, 512, INT8
                    M1 Pro 16 GB,      metal, 16,     10.6, 1,       fp16,  fp16,  flash,     true,          2, 8, 2048, INT8
                    M2 Max,            metal, 32,     21,   2,       fp16,  fp16,  flash,     true,          2, 8, 2048, INT8
                    M3,                metal, 24,     15.8, 3,       bf16,  bf16,  flash,     true,          2, 8, 2048, INT8
                    M4 Max,            metal, 64,     48,   4,       bf16,  bf16,  flash,     true,          2, 8, 2048, INT8
                    Intel Mac,         cpu,   16,     9,    0,       bf16,  no,    tiled,     true,          2, 8, 2048, NF4
                    Linux CPU,         cpu,   32,     28,   0,       bf16,  no,    tiled,     true,          2, 8, 2048, NF4
                    Windows CPU,       cpu,   16,     8,    0,       bf16,  no,    tiled,     true,          2, 8, 2048, NF4
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
            Storage storage) {
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
                                adapted.storage().name())
                        .toList())
                .isEqualTo(
                        List.of(dtype, mixed, attention, checkpointing, batch, accumulation, context, storage.name()));
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
        assertThat(metal.storage()).isEqualTo(Storage.NF4);
        assertThat(metal.config().show("optimization.mixed_precision")).isEqualTo("bf16");
        Adaptation cuda = adapt(recorded("A100", "cuda", 80, 78, 80), "quantization.mps_quant_dtype=int8");
        assertThat(cuda.storage()).isEqualTo(Storage.NF4);
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
            assertThat(adapted.storage()).isEqualTo(Storage.FP32);
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
