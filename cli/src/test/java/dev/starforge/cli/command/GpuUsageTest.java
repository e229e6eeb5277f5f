package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** How busy a GPU is, as NVML says it, stands in what a run writes; unknown where NVML does not say, and never an error. */
final class GpuUsageTest {
    private static final long USED_BYTES = 3L << 30;

    @TempDir
    private Path folder;

    @BeforeEach
    void compileTheDriver() throws IOException, InterruptedException {
        FakeCuda.compile(folder);
    }

    private String starforge(Map<String, String> environment, String... arguments)
            throws IOException, InterruptedException {
        ProcessBuilder builder = FakeCuda.starforge(folder, List.of(arguments));
        builder.environment().putAll(environment);
        int code = builder.start().waitFor();
        String log = Files.readString(folder.resolve("log"), StandardCharsets.UTF_8);
        assertThat(code).as(log).isZero();
        return log;
    }

    /** Two steps of a new model; the kernels of this GPU compute nothing, so that only their usage is of interest. */
    private String train(Map<String, String> environment) throws IOException, InterruptedException {
        Path texts = Files.writeString(
                folder.resolve("texts.jsonl"), "{\"text\": \"def f(x):\\n    return x + 1\\n\"}\n".repeat(20));
        Path config = Files.writeString(folder.resolve("train.yaml"), """
            model: {pretrained_model: scratch, hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 2,
                    num_key_value_heads: 1, vocab_size: 320, context_window: 64}
            data: {train: "%1$s", validation: "%1$s"}
            optimization: {batch_size: 2, gradient_accumulation_steps: 1}
            training: {max_steps: 2, eval_steps: 0, samples: 0}
            device: {force: cuda}
            """.formatted(texts));
        return starforge(environment, "train", "--config", config.toString(), "--output", run().toString());
    }

    private Path run() {
        return folder.resolve("run");
    }

    private List<JsonNode> steps() throws IOException {
        List<JsonNode> steps = Files.readAllLines(run().resolve("metrics.jsonl")).stream()
                .map(line -> new JsonMapper().readTree(line))
                .filter(line -> line.has("grad_norm"))
                .toList();
        assertThat(steps).hasSize(2);
        return steps;
    }

    @Test
    void aRunWritesTheUtilizationAndMemoryOfItsGpu() throws IOException, InterruptedException {
        assertThat(train(Map.of())).contains("  GPU 37 % 3.2 GB  ");
        assertThat(steps()).allSatisfy(line -> {
            assertThat(line.path("utilization").doubleValue()).isEqualTo(0.37);
            assertThat(line.path("device_memory_bytes").longValue()).isEqualTo(USED_BYTES);
        });
        JsonNode hardware =
                new JsonMapper().readTree(run().resolve("summary.json")).path("hardware");
        assertThat(hardware.path("utilization").path("avg").doubleValue()).isEqualTo(0.37);
        assertThat(hardware.path("device_memory_bytes").path("max").longValue()).isEqualTo(USED_BYTES);
        assertThat(starforge(Map.of(), "devices")).doesNotContain("utilization");
    }

    /** As with MIG: memory is known, utilization is not. */
    @Test
    void oneOfTheTwoMayBeUnknown() throws IOException, InterruptedException {
        train(Map.of("FAKE_CUDA_FAILS", "nvmlDeviceGetUtilizationRates"));
        assertThat(steps()).allSatisfy(line -> {
            assertThat(line.has("utilization")).isFalse();
            assertThat(line.path("device_memory_bytes").longValue()).isEqualTo(USED_BYTES);
        });
    }

    /** Not the share of cores instead, which a reader would take for the GPU's. */
    @Test
    void withoutTheLibraryItIsUnknown() throws IOException, InterruptedException {
        Path library = folder.resolve("libnvidia-ml.so.1");
        Files.delete(library);
        Files.createFile(library); // not to be loaded, and ahead of one that the machine may have
        train(Map.of());
        assertThat(steps()).allSatisfy(line -> {
            assertThat(line.has("utilization")).isFalse();
            assertThat(line.has("device_memory_bytes")).isFalse();
        });
        assertThat(unwrapped(starforge(Map.of(), "devices")))
                .contains("utilization is unknown: NVML was not found: neither libnvidia-ml.so.1 nor nvml.dll");
    }

    @Test
    void aLibraryThatDoesNotStartIsSaidByNvmlsOwnWords() throws IOException, InterruptedException {
        assertThat(unwrapped(starforge(Map.of("FAKE_CUDA_FAILS", "nvmlInit_v2"), "devices")))
                .contains("utilization is unknown: NVML does not start: Driver/library version mismatch");
    }

    /** The text without the line breaks that fit it to the terminal. */
    private static String unwrapped(String text) {
        return text.replaceAll("\\s+", " ");
    }
}
