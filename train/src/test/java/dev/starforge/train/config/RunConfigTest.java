package dev.starforge.train.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.data.Yaml;
import dev.starforge.data.config.ConfigException;
import dev.starforge.data.dataset.config.DatasetKeys;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class RunConfigTest {
    private static final Path DOCS = Path.of("..", "docs", "config.md");
    private static final String GENERATED = "<!-- written by scripts/config-page from here on -->\n";

    @TempDir
    Path folder;

    private RunConfig read(String yaml) throws IOException {
        return RunConfig.read(Files.writeString(folder.resolve("train.yaml"), yaml));
    }

    @Test
    void readsWhatASeedWrote() throws IOException {
        RunConfig config = read("""
            model:
              pretrained_model: "bigcode/starcoder2-3b"
              mps_prefer_fp16: true  # Use fp16 on MPS for memory savings
            quantization:
              load_in_4bit: true  # On CUDA: 4-bit; on MPS: int8
              lora_enabled: true
              lora_rank: 32
              lora_alpha: 64
              lora_dropout: 0.05
              mps_quant_dtype: "int8"
              mps_group_size: 64
              mps_compute_dtype: "float16"
              train_path: "data_enhanced/dataset_enhanced/training_data_enhanced_train.json"
            optimization:
              batch_size: 2
              gradient_accumulation_steps: 8  # Effective batch = 16
              learning_rate: 2.0e-4
              mixed_precision: "fp16"  # or "bf16"
              gradient_checkpointing: true
            training:
              num_epochs: 3
              seed: 42
            device_backend:
              force_device: null  # Will auto-detect
            output:
              output_dir: "models/starcoder2-mps-optimized"
            """);
        assertThat(config.show("optimization.learning_rate")).isEqualTo("2.0E-4");
        assertThat(config.show("quantization.group_size")).isEqualTo("64");
        assertThat(config.show("device.metal_precision")).isEqualTo("fp16");
        assertThat(config.show("data.train")).endsWith("enhanced_train.json");
        assertThat(config.show("optimization.gradient_checkpointing")).isEqualTo("true");
        assertThat(config.device()).isEqualTo("auto");
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
        optimization: {learning_rat: 1}    | 2 | unknown key optimization.learning_rat; the nearest one is optimization.learning_rate
        training: {lora_rank: 3}           | 2 | unknown key training.lora_rank; the nearest one is quantization.lora_rank
        nonsense: 3                        | 2 | unknown key nonsense
        optimization: {batch_size: 0}      | 2 | expected whole number 1..65536, or auto, got 0
        optimization: {batch_size: two}    | 2 | expected whole number 1..65536, or auto, got two
        optimization: {batch_size: 1.5}    | 2 | expected whole number 1..65536, or auto, got 1.5
        optimization: {batch_size: '2'}    | 2 | expected whole number 1..65536, or auto, got 2
        training: {packing: 1}             | 2 | expected true or false, got 1
        quantization: {lora_dropout: 1.2}  | 2 | expected number 0.0..0.99, got 1.2
        optimization: {lr_scheduler: step} | 2 | expected one of cosine, linear, constant, wsd, got step
        optimization: {betas: [0.9]}       | 2 | expected two numbers
        output: {output_dir: [a]}          | 2 | expected text, got [a]
        training: {seed: 1, seed: 2}       | 2 | seed
        training: [1, 2]                   | 2 | unknown key training
        training: {seed: 1                 | 3 | is not YAML
        dataset: {samples: {spam: 0.5}}    | 2 | unknown key dataset.samples.spam; the nearest one is dataset.samples.spm
        dataset: {samples: {span: word}}   | 2 | key dataset.samples.span: expected one of character, line, few_lines, node, got word
        dataset: {samples: {context_length: 5}} | 2 | expected whole number 64..16777216, or auto, got 5
        dataset: {history: 3}              | 2 | unknown key dataset.history
        """)
    void saysWhichLineIsWrong(String line, int number, String message) throws IOException {
        assertThatThrownBy(() -> read("model: {dtype: bf16}\n" + line + "\n"))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("train.yaml:" + number + ": ")
                .hasMessageContaining(message);
    }

    @Test
    void assignmentsComeLast() throws IOException {
        RunConfig config = read("training: {seed: 1}")
                .set(List.of(
                        "training.seed=7",
                        "quantization.lora_target_modules=[q_proj, v_proj]",
                        "optimization.eps=1e-6"));
        assertThat(config.show("training.seed")).isEqualTo("7");
        assertThat(config.show("quantization.lora_target_modules")).isEqualTo("[q_proj, v_proj]");
        assertThat(config.show("optimization.eps")).isEqualTo("1.0E-6");
        assertThatThrownBy(() -> config.set(List.of("training.sed=7")))
                .hasMessage("--set training.sed=7: unknown key training.sed; the nearest one is training.seed");
        assertThatThrownBy(() -> config.set(List.of("training.seed")))
                .hasMessage("--set training.seed: expected section.key=value");
    }

    @Test
    void aPathIsTakenAsItIs() throws IOException {
        for (String path : List.of("a\nb", "a\tb", "a #b", "data/\u2028x", "2024", "007")) {
            RunConfig plain = RunConfig.defaults().set(List.of("data.path=" + path));
            RunConfig quoted = RunConfig.defaults().set(List.of("data.path=" + Yaml.quoted(path)));
            assertThat(plain.show("data.path")).isEqualTo(path);
            assertThat(quoted.show("data.path")).isEqualTo(path);
            assertThat(read(quoted.yaml()).show("data.path")).isEqualTo(path);
        }
    }

    @Test
    void nestingHasALimit() {
        assertThatThrownBy(() -> read("a: " + "[".repeat(100_000)))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("train.yaml:1: is not YAML: expected at most 64 levels of nesting");
        assertThatThrownBy(() -> RunConfig.defaults().set(List.of("data.path=" + "[".repeat(100_000))))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("expected at most 64 levels of nesting");
        assertThatThrownBy(() -> read("model: &a {b: *a}"))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("*a is inside what it stands for");
    }

    @Test
    void whatIsWrittenReadsBackTheSame() throws IOException {
        RunConfig config = RunConfig.defaults()
                .set(List.of(
                        "training.directory_weights={src/core: 2, \"a b\": 0.5}",
                        "model.pretrained_model=\"C:\\\\models\\\\x \\\"y\\\"\"",
                        "device.force=cpu",
                        "optimization.betas=[0.8, 0.95]"));
        assertThat(read(config.yaml()).yaml()).isEqualTo(config.yaml());
        assertThat(read(config.yaml()).show("training.directory_weights")).isEqualTo("{src/core=2.0, a b=0.5}");
    }

    /** One row of the table in docs/config.md each. */
    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
        device_backend.force_device=mps         | device.force                     | metal
        device_backend.force_device=null        | device.force                     | null
        device_backend.attention_backend=metal  | device.attention                 | flash
        attention_backend=xformers              | device.attention                 | flash
        attention_backend=sdpa                  | device.attention                 | auto
        attention_backend=native                | device.attention                 | plain
        optimization.use_mixed_precision=true   | optimization.mixed_precision     | auto
        optimization.use_mixed_precision=false  | optimization.mixed_precision     | no
        quantization.train_path=a.json          | data.train                       | a.json
        dataset.val_path=b.json                 | data.validation                  | b.json
        data.test_path=c.json                   | data.test                        | c.json
        dataset.context_window=512              | model.context_window             | 512
        dataset.target_window=256               | model.context_window             | 2304
        quantization.bnb_4bit_compute_dtype=float16 | optimization.mixed_precision | fp16
        quantization.bnb_4bit_use_double_quant=false | quantization.double_quantization | false
        quantization.mps_group_size=64          | quantization.group_size          | 64
        quantization.mps_group_size=256         | quantization.group_size          | 256
        quantization.mps_compute_dtype=float16  | device.metal_precision           | fp16
        model.mps_prefer_fp16=true              | device.metal_precision           | fp16
        quantization.mps_quant_dtype=int8       | quantization.metal_storage       | int8
        model.base_model=a/b                    | model.pretrained_model           | a/b
        sequence_len=512                        | model.context_window             | 512
        max_seq_length=512                      | model.context_window             | 512
        model.use_lora=false                    | quantization.lora_enabled        | false
        lora_r=8                                | quantization.lora_rank           | 8
        micro_batch_size=3                      | optimization.batch_size          | 3
        per_device_train_batch_size=3           | optimization.batch_size          | 3
        num_train_epochs=2                      | training.num_epochs              | 2
        sample_packing=false                    | training.packing                 | false
        model.torch_dtype=bfloat16              | model.dtype                      | bf16
        model.use_4bit=false                    | quantization.load_in_4bit        | false
        model.use_8bit=true                     | quantization.load_in_8bit        | true
        training.num_workers=4                  | data.num_workers                 | 4
        model.use_mps_int8_quant=false          | quantization.metal_storage       | nf4
        """)
    void otherSpellingsAreOurs(String assignment, String key, String value) {
        assertThat(RunConfig.defaults().set(List.of(assignment)).show(key)).isEqualTo(value);
    }

    @ParameterizedTest
    @ValueSource(strings = {"trust_remote_code=false", "num_beams=1", "bnb_4bit_quant_type=nf4"})
    void whatIsDoneAnywayIsTaken(String assignment) {
        assertThat(RunConfig.defaults().set(List.of("model." + assignment)).yaml())
                .isEqualTo(RunConfig.defaults().yaml());
    }

    @ParameterizedTest
    @CsvSource({
        "trust_remote_code=true, code that comes with a model is never executed",
        "num_beams=4, there is no beam search",
        "bnb_4bit_quant_type=fp4, 4-bit bases are NF4",
        "device_map=auto, a model runs on one device",
        "fp16=true, see optimization.mixed_precision",
        "deepspeed=x.json, training runs in one process"
    })
    void whatIsNotDoneIsRefusedByName(String assignment, String reason) {
        assertThatThrownBy(() -> RunConfig.defaults().set(List.of("model." + assignment)))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining(assignment.substring(0, assignment.indexOf('=')))
                .hasMessageContaining("refused: " + reason);
    }

    /** The page is written from the tables: `-Ddocs=write` does so. */
    @Test
    void thePageHasTheTables() throws IOException {
        String page = Files.readString(DOCS);
        int begin = page.indexOf(GENERATED) + GENERATED.length();
        assertThat(begin).isGreaterThan(GENERATED.length());
        String written = page.substring(0, begin) + "\n" + RunConfig.SCHEMA.markdown();
        if (System.getProperty("docs", "").equals("write")) {
            Files.writeString(DOCS, written);
        }
        assertThat(Files.readString(DOCS))
                .as("docs/config.md is out of date; write it again with: scripts/config-page")
                .isEqualTo(written);
    }

    @Test
    void sectionsOfADatasetAreNoSectionsOfRuns() {
        assertThat(DatasetKeys.ALL).allMatch(key -> key.path().startsWith("dataset."));
        List<String> ofRuns = Keys.ALL.stream().map(key -> first(key.path())).toList();
        assertThat(DatasetKeys.ALL.stream().map(key -> first(key.path().substring("dataset.".length()))))
                .doesNotContainAnyElementsOf(ofRuns);
    }

    private static String first(String path) {
        return path.replaceAll("\\..*", "");
    }

    @Test
    void oneFileHasTheSettingsOfADataset() throws IOException {
        RunConfig config = read("""
            model: {context_window: 512}
            dataset:
              name: 2024
              samples: {span: line, fim_files: 1}
              filters: {exclude: ["*.sql", docs/**], include: src/**}
              splits:
            """);
        assertThat(config.show("dataset.samples.span")).isEqualTo("line");
        assertThat(config.show("dataset.name")).isEqualTo("2024");
        assertThat(config.show("dataset.filters.exclude")).isEqualTo("[*.sql, docs/**]");
        assertThat(config.show("dataset.filters.include")).isEqualTo("[src/**]");
        assertThat(config.show("dataset.samples.context_length")).isEqualTo("auto");
        assertThat(read(config.yaml()).yaml()).isEqualTo(config.yaml());
        RunConfig set = config.set(List.of(
                "dataset.filters.exclude=*.md,a b/*",
                "dataset.filters.include=[\"a,b\"]",
                "dataset.samples.context_length=4096"));
        assertThat(set.show("dataset.filters.exclude")).isEqualTo("[*.md, a b/*]");
        assertThat(set.show("dataset.filters.include")).isEqualTo("[a,b]");
        assertThat(read(set.yaml()).show("dataset.samples.context_length")).isEqualTo("4096");
    }

    @Test
    void theSectionIsNeededButForDatasets() throws IOException {
        assertThatThrownBy(() -> read("samples: {span: line}"))
                .hasMessageContaining(
                        "train.yaml:1: unknown key samples.span; the nearest one is dataset.samples.span");
        assertThatThrownBy(() -> read("seed: 1")).hasMessageContaining("the nearest one is training.seed");
        Path file = Files.writeString(folder.resolve("old.yaml"), "seed: 7\nsamples: {span: line}\nexport: both\n");
        RunConfig old = RunConfig.datasetDefaults().with(file).set(List.of("samples.order=dependency"));
        assertThat(old.show("dataset.seed")).isEqualTo("7");
        assertThat(old.show("training.seed")).isEqualTo("42");
        assertThat(old.show("dataset.samples.span")).isEqualTo("line");
        assertThat(old.show("dataset.samples.order")).isEqualTo("dependency");
        Path both = Files.writeString(folder.resolve("both.yaml"), "seed: 7\ndataset: {seed: 8}\n");
        assertThatThrownBy(() -> RunConfig.datasetDefaults().with(both))
                .hasMessageContaining("both.yaml:2: key dataset.seed: is there twice, before as seed");
        assertThatThrownBy(() -> RunConfig.datasetDefaults().set(List.of("sed=1")))
                .hasMessageContaining("the nearest one is dataset.seed");
    }

    @Test
    void theFileToBeginWithHasTheDefaults(@TempDir Path folder) throws IOException {
        Path file = Files.writeString(folder.resolve("train.yaml"), StarterConfig.text());
        RunConfig expected = RunConfig.defaults().set(List.of("data.path=dataset"));
        assertThat(RunConfig.read(file).yaml()).isEqualTo(expected.yaml());
        assertThat(StarterConfig.text().lines()).allMatch(line -> line.length() <= 130);
        assertThat(StarterConfig.text()).contains("# hidden_size: 256").contains("# Rank of the updates.");
    }

    @Test
    void aLimitTakesTheWordAll() {
        RunConfig config = RunConfig.defaults().set(List.of("evaluation.max_tokens=all"));
        assertThat(config.show("evaluation.max_tokens")).isEqualTo("0");
        assertThatThrownBy(() -> config.set(List.of("evaluation.max_tokens=some")))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("expected whole number from 0, or all, got some");
    }
}
