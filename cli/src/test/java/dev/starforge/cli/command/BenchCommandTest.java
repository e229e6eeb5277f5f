package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.cli.process.ProcessMemory;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The command that times models, on models small enough for a test; the figures themselves are not what is tested. */
final class BenchCommandTest {
    private static final String MODEL =
            Path.of("..", "golden", "models", "starcoder2").toString();
    private static final String SHORT = " --prompt-tokens 8 --gen-tokens 4 --repeat 2 --no-limits --device cpu";

    private static CommandOutcome run(String line) {
        return CommandOutcome.run(line.split(" "));
    }

    /** Real runs, each compared with the reference before it is timed. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "F32",
                "F16",
                "BF16",
                "Q8_0",
                "Q6_K",
                "Q5_K_M",
                "Q5_0",
                "Q4_K_M",
                "Q4_1",
                "Q4_0",
                "NF4",
                "NF4_DOUBLE",
                "INT8_128",
                "GPTQ_128"
            })
    void randomWeightsOfEveryFormatAreCheckedAndTimed(String format) {
        CommandOutcome outcome = run("bench --random tiny --json --format " + format + SHORT);
        assertThat(outcome.code()).as(outcome.err()).isZero();
        JsonNode json = new JsonMapper().readTree(outcome.out());
        assertThat(json.path("model").stringValue()).isEqualTo("random-tiny-" + format);
        assertThat(json.path("architecture").stringValue()).isEqualTo("llama");
        // embedding, two blocks of projections and two norms, the last norm
        long block = 2 * 256 * 256 + 2 * 128 * 256 + 3 * 768 * 256 + 2 * 256;
        assertThat(json.path("parameters").longValue()).isEqualTo(512 * 256 + 2 * block + 256);
        assertThat(json.path("prefill_tok_s").doubleValue()).isPositive();
        assertThat(json.path("decode_tok_s").doubleValue()).isPositive();
        assertThat(json.path("first_token_ms").doubleValue()).isPositive();
        assertThat(json.path("load_ms").doubleValue()).isPositive();
        assertThat(json.path("resident_bytes").longValue())
                .isBetween(json.path("stored_bytes").longValue(), (long)
                        (1.15 * json.path("stored_bytes").longValue()));
        assertThat(json.path("logit_difference").doubleValue()).isBetween(0.0, 5e-2);
        assertThat(json.path("decode_tok_s_each").size()).isEqualTo(2);
        if (ProcessMemory.now().resident().isPresent()) {
            assertThat(json.path("process_rss_bytes").longValue())
                    .isGreaterThan(json.path("resident_bytes").longValue());
            assertThat(json.path("process_peak_rss_bytes").longValue())
                    .isGreaterThanOrEqualTo(json.path("process_rss_bytes").longValue());
        }
        assertThat(outcome.err()).contains("1 of 2: ", "2 of 2: ");
    }

    /** Logits of a batch are held to the reference, too, and a repeated step to its bits. */
    @Test
    void sequencesThatAreDecodedTogetherAreCompared() {
        CommandOutcome outcome = run("bench --random tiny --json --format F32 --batch 3 --replays 2" + SHORT);
        assertThat(outcome.code()).as(outcome.err()).isZero();
        JsonNode json = new JsonMapper().readTree(outcome.out());
        assertThat(json.path("logit_difference").doubleValue()).isBetween(0.0, 2e-3);
        assertThat(json.path("batch_logit_difference").isNumber()).isTrue();
        assertThat(json.path("batch_logit_difference").doubleValue()).isBetween(0.0, 2e-3);
        assertThat(json.path("logit_crc32").longValue()).isPositive();
    }

    @Test
    void whatASequenceOfABatchDiffersByIsPrintedUnlessNothingIsCompared() {
        String batch = "bench --random tiny --batch 5 --depth 40" + SHORT;
        assertThat(run(batch).out())
                .containsPattern("difference +\\S+ of the range.*\\R +\\S+ of 5 sequences decoded together");
        assertThat(run(batch + " --no-check").out()).contains("decode").doesNotContain("difference", "together");
    }

    /** An update has one launch for each parameter, so the profile is of one step, and of all of it. */
    @ParameterizedTest
    @CsvSource({"--quantized int8-128 --checkpointing full, 24", "--full, 35"})
    void trainingStepsAreTimedByOperation(String how, int parameters) {
        CommandOutcome outcome =
                run("bench " + MODEL + " --train 2x16 --profile --json --repeat 1 --device cpu " + how);
        assertThat(outcome.code()).as(outcome.err()).isZero();
        JsonNode json = new JsonMapper().readTree(outcome.out());
        assertThat(json.path("train_tok_s").doubleValue()).isPositive();
        assertThat(json.path("loss").doubleValue()).isBetween(10.0, 15.0); // of random tokens, for this model
        Map<String, Integer> calls = new HashMap<>();
        json.path("profile")
                .path("operations")
                .forEach(row -> calls.put(
                        row.path("operation").stringValue(), row.path("calls").intValue()));
        assertThat(calls).containsEntry("AdamW", parameters).containsEntry("CrossEntropyGrad", 1);
    }

    @Test
    void aFileIsTimedAsWellAndLimitsStandBeside() {
        CommandOutcome outcome = run("bench " + MODEL + SHORT.replace(" --no-limits", "") + " --depth 16");
        assertThat(outcome.code()).as(outcome.err()).isZero();
        assertThat(outcome.out())
                .containsPattern("model +0.000 billion parameters")
                .containsPattern("prefill +[\\d.]+ tokens/s +[\\d.]+ GFLOP/s +of +[\\d.]+ +\\d+ %")
                .containsPattern("decode +[\\d.]+ tokens/s +[\\d.]+ GB/s +of +[\\d.]+ +\\d+ %")
                .containsPattern("difference +\\S+ of the range");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "bench | 2 | MODEL | --random=SHAPE",
                "bench MODEL --random tiny | 2 | MODEL, --random=SHAPE | mutually exclusive",
                "bench MODEL --format Q4_0 | 2 | --format: requires --random | help",
                "bench --random huge | 1 | huge: is no preset; known are tiny, deepseek-moe-16b, llama-2-7b |"
                        + " starcoder2-7b",
                "bench --random tiny --format Q9 | 1 | format Q9: expected one of | Q4_K_M",
                "bench --random tiny --prompt-tokens 500 --gen-tokens 13 | 2 | 513 tokens exceed | context length of"
                        + " the model, 512",
                "bench --random tiny --prompt-tokens 8 --depth 510 --gen-tokens 3 | 2 | 513 tokens exceed | context"
                        + " length of the model, 512",
                "bench --random tiny --train 1x8 --prompt-tokens 8 | 2 | --prompt-tokens: not supported with --train |"
                        + " --train",
                "bench --random tiny --train 1x8 --gen-tokens 8 | 2 | --gen-tokens: not supported with --train |"
                        + " --train",
                "bench --random tiny --train 1x8 --depth 8 | 2 | --depth: not supported with --train | --train",
                "bench --random tiny --train 1x8 --batch 2 | 2 | --batch: not supported with --train | --train",
                "bench --random tiny --train 1x8 --no-check | 2 | --no-check: not supported with --train | --train",
                "bench --random tiny --train 1x8 --no-limits | 2 | --no-limits: not supported with --train | --train",
                "bench MODEL --adapter MODEL/adapter --train 1x8 | 2 | is an adapter | pass its base",
                "bench --random tiny --repeat 0 | 2 | expected at least 1 | --repeat",
            })
    void wrongUseIsExplained(String line, int code, String first, String second) {
        CommandOutcome outcome = run(line.replace("MODEL", MODEL));
        assertThat(outcome.err()).contains(first, second).doesNotContain("\tat ");
        assertThat(outcome.code()).isEqualTo(code);
    }

    @Test
    void helpNamesTheShapesAndTeaches() {
        CommandOutcome outcome = run("bench --help");
        assertThat(outcome.code()).isZero();
        assertThat(outcome.out()).contains("llama-3.2-1b", "starcoder2-3b", "qwen2.5", "Examples:", "memory bound");
    }

    @Test
    void memoryOfTheProcessIsReadWhereLinuxSaysIt() {
        List<String> status = List.of("Name:\tjava", "VmHWM:\t  2048 kB", "VmRSS:\t  1024 kB");
        assertThat(ProcessMemory.of(status))
                .isEqualTo(new ProcessMemory(OptionalLong.of(1 << 20), OptionalLong.of(2 << 20)));
        assertThat(ProcessMemory.of(List.of()))
                .isEqualTo(new ProcessMemory(OptionalLong.empty(), OptionalLong.empty()));
    }
}
