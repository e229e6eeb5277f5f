package dev.starforge.train.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.data.Dataset;
import dev.starforge.data.SampleOrigin;
import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenShardWriter;
import dev.starforge.model.Quantization;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.text.config.ConfigException;
import dev.starforge.text.file.Hashes;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.MetricsLog;
import dev.starforge.train.checkpoint.RunEvents;
import dev.starforge.train.checkpoint.RunFolder;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.DocumentSources;
import dev.starforge.train.plan.LimitedDevice;
import dev.starforge.train.run.Runs.Said;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Whole runs on a golden model: what they write, and what they do when something goes wrong. */
final class TrainRunTest {
    @TempDir
    Path folder;

    private Path sequences(String name, int count, int length) throws IOException {
        return Runs.sequences(folder, name, count, length);
    }

    private RunConfig config(String... settings) throws IOException {
        return Runs.config(folder, settings);
    }

    private static TrainRun.Setup setup(RunConfig config, Device device, boolean resume, RunEvents events) {
        return Runs.setup(config, device, resume, events);
    }

    private static Said run(RunConfig config, boolean resume) {
        return Runs.run(config, resume);
    }

    @Test
    void savesAHfModelFolder() throws IOException {
        Said said = run(config(), false);
        Path run = folder.resolve("run");
        assertThat(said.steps).hasSize(12);
        assertThat(said.losses().getLast()).isLessThan(said.losses().getFirst() - 1);
        assertThat(MetricsLog.read(run)).hasSize(12 + 4);
        assertThat(MetricsLog.read(run))
                .filteredOn(line -> line.has("grad_norm"))
                .hasSize(12)
                .allSatisfy(line -> {
                    assertThat(line.path("tokens_per_second").doubleValue()).isPositive();
                    assertThat(line.path("memory_bytes").longValue()).isPositive();
                    assertThat(line.path("utilization").doubleValue()).isBetween(0.0, 1.0);
                });
        JsonNode summary = new JsonMapper().readTree(run.resolve("summary.json"));
        assertThat(summary.path("steps").intValue()).isEqualTo(12);
        assertThat(summary.path("epochs").doubleValue()).isEqualTo(2);
        assertThat(summary.path("train_loss_history").size()).isEqualTo(12);
        assertThat(summary.path("final_val_loss").doubleValue()).isEqualTo(said.evaluations.getLast());
        assertThat(Files.readString(run.resolve("report.html")))
                .contains("default-src 'none'", "\"evaluate it\":\"starforge eval")
                .contains("\"eval_loss\":" + said.evaluations.getFirst());
        assertThat(RunConfig.read(run.resolve("config.yaml")).yaml()).isEqualTo(config().yaml());
        // the adapter is one of PEFT's, and gives the loss that was reported
        try (Device device = Tiny.cpu(2);
                ModelFiles files = ModelFiles.open(Tiny.STARCODER);
                Scope scope = new Scope(device);
                LoraAdapter adapter = LoraAdapter.open(Checkpoints.resolve(run), scope)) {
            files.load(scope, Precision.FLOAT32, adapter);
            assertThat(adapter.parameters()).hasSize(2 * 2 * 6);
        }
    }

    @Test
    void aSmallerBatchAfterTooLittleMemoryChangesNothingElse() throws IOException {
        RunConfig config = config(
                "optimization.gradient_checkpointing=false",
                "training.num_epochs=1",
                "optimization.learning_rate=1e-3"); // at ten times that roundings grow tenfold in a step
        List<Double> whole = run(config, false).losses();
        Said said = new Said();
        RunConfig again = config.set(List.of("output.overwrite=true"));
        List<Double> halves = run(
                        again.set(List.of("optimization.batch_size=2", "optimization.gradient_accumulation_steps=2")),
                        false)
                .losses();
        long least = smallestLimit(again);
        try (Device device = new LimitedDevice(Tiny.cpu(2), least);
                RunFolder _ = RunFolder.claim(again, false);
                TrainRun run = new TrainRun(setup(again, device, false, said))) {
            run.run();
        }
        assertThat(said.notes).anyMatch(note -> note.startsWith("out of memory"));
        for (int i = 0; i < whole.size(); i++) {
            assertThat(said.losses().get(i) / whole.get(i)).isBetween(1 - 1e-4, 1 + 1e-4);
            assertThat(said.losses().get(i)).isEqualTo(halves.get(i));
        }
    }

    /** A little less than a run takes. */
    private long smallestLimit(RunConfig config) {
        LimitedDevice device = new LimitedDevice(Tiny.cpu(2), Long.MAX_VALUE);
        try (device;
                RunFolder _ = RunFolder.claim(config, false);
                TrainRun run = new TrainRun(setup(config, device, false, new Said()))) {
            run.run();
        }
        return device.peakReserved() - 1;
    }

    @Test
    void oneSequenceThatDoesNotFitIsAnErrorWithAdvice() throws IOException {
        RunConfig config = config("optimization.batch_size=1", "optimization.gradient_checkpointing=false");
        LimitedDevice loading = new LimitedDevice(Tiny.cpu(2), Long.MAX_VALUE);
        try (loading;
                RunFolder _ = RunFolder.claim(config, false)) {
            new TrainRun(setup(config, loading, false, new Said())).close();
        }
        RunConfig again = config.set(List.of("output.overwrite=true"));
        try (RunFolder _ = RunFolder.claim(again, false);
                Device device = new LimitedDevice(Tiny.cpu(2), loading.peakReserved() + (1 << 19));
                TrainRun run = new TrainRun(setup(again, device, false, new Said()))) {
            assertThatThrownBy(run::run)
                    .isInstanceOf(TrainException.class)
                    .hasMessageContaining("one sequence of 64 tokens does not fit")
                    .hasMessageContaining("set model.context_window lower");
        }
    }

    /** With a loss that is scaled, as a device of half precision would have it. */
    @ParameterizedTest
    @ValueSource(strings = {"load_in_4bit", "load_in_8bit"})
    void aRunOnAQuantizedBaseResumesBitForBit(String key) throws IOException {
        String[] settings = {
            "quantization." + key + "=true",
            "model.dtype=bf16",
            "quantization.lora_dropout=0.1",
            "optimization.mixed_precision=fp16"
        };
        Said whole = run(config(settings), false);
        assertThat(LoraAdapter.trainedOn(Checkpoints.resolve(folder.resolve("run"))))
                .isEqualTo(config(settings).quantization())
                .isNotEqualTo(Quantization.NONE);
        String elsewhere = "output.output_dir=\"" + folder.resolve("parts") + "\"";
        RunConfig parts = config(settings).set(List.of(elsewhere));
        AtomicReference<TrainRun> running = new AtomicReference<>();
        Said first = new Said() {
            @Override
            public void step(Step step) {
                super.step(step);
                if (step.step() == 5) {
                    running.get().stop();
                }
            }
        };
        try (Device device = Tiny.cpu(1);
                RunFolder _ = RunFolder.claim(parts, false);
                TrainRun run = new TrainRun(setup(parts, device, false, first))) {
            running.set(run);
            assertThat(run.run()).isEqualTo(TrainRun.End.INTERRUPTED);
        }
        JsonNode state = new JsonMapper().readTree(folder.resolve("parts/checkpoint-5/state.json"));
        assertThat(state.path("loss_scale").doubleValue()).isEqualTo(65536);
        assertThat(state.path("loss_scale_good_steps").intValue()).isEqualTo(5);
        Said second = run(parts, true);
        state = new JsonMapper().readTree(folder.resolve("parts/checkpoint-12/state.json"));
        assertThat(state.path("loss_scale_good_steps").intValue()).isEqualTo(12);
        List<Double> losses = new ArrayList<>(first.losses());
        losses.addAll(second.losses());
        assertThat(losses).hasSize(12).isEqualTo(whole.losses());
        assertThat(second.evaluations.getLast()).isEqualTo(whole.evaluations.getLast());
        assertThatThrownBy(() -> run(parts.set(List.of("quantization." + key + "=false")), true))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("quantization." + key)
                .hasMessageContaining("was started with true");
    }

    @Test
    void stopsWhenTheLossNoLongerFalls() throws IOException {
        Said said = run(
                config(
                        "training.patience=2",
                        "training.num_epochs=50",
                        "training.eval_steps=2",
                        "optimization.lr_scheduler=constant"),
                false);
        assertThat(said.steps.size()).isLessThan(200);
        double best = said.evaluations.stream().mapToDouble(loss -> loss).min().orElseThrow();
        List<Double> last = said.evaluations.subList(said.evaluations.size() - 2, said.evaluations.size());
        assertThat(last).allMatch(loss -> loss > best - 1e-4);
        assertThat(Checkpoints.target(folder.resolve("run"), "best")).isPresent();
    }

    /** A base with a NaN in its last norm: no loss is ever finite, nothing may move, and three such steps are the end. */
    @Test
    void stepsThatAreNotFiniteAreSkippedAndSeveralEndTheRun() throws IOException {
        Path broken = Files.createDirectories(folder.resolve("broken"));
        Files.copy(Tiny.STARCODER.resolve("config.json"), broken.resolve("config.json"));
        List<SafetensorsFile.SafetensorsData> entries = new ArrayList<>();
        try (SafetensorsFile file = SafetensorsFile.open(Tiny.STARCODER.resolve("model.safetensors"))) {
            for (String name : file.tensors().keySet()) {
                float[] values = file.readFloats(name);
                if (name.equals("model.norm.weight")) {
                    values[0] = Float.NaN;
                }
                entries.add(SafetensorsFile.SafetensorsData.of(
                        name, file.tensor(name).shape(), values));
            }
        }
        SafetensorsFile.write(broken.resolve("model.safetensors"), entries);
        RunConfig config = config("model.pretrained_model=\"" + broken + "\"", "training.eval_steps=0");
        Said said = new Said();
        try (Device device = Tiny.cpu(2);
                RunFolder _ = RunFolder.claim(config, false);
                TrainRun run = new TrainRun(setup(config, device, false, said))) {
            assertThatThrownBy(run::run)
                    .isInstanceOf(TrainException.class)
                    .hasMessageContaining("3 steps in a row were not finite")
                    .hasMessageContaining("checkpoint-3");
        }
        assertThat(said.notes)
                .filteredOn(note -> note.contains("skipped: loss NaN"))
                .hasSize(3);
        assertThat(said.steps).noneMatch(RunEvents.Step::moved);
        assertThat(Checkpoints.defect(folder.resolve("run/checkpoint-3"))).isEmpty();
    }

    @Test
    void resumesOnlyWithTheSameSettingsAndData() throws IOException {
        run(config("training.max_steps=4"), false);
        assertThatThrownBy(() -> run(config("training.max_steps=4"), false))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("a run already exists");
        assertThatThrownBy(() -> run(config("training.max_steps=4", "training.seed=1"), true))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("training.seed")
                .hasMessageContaining("was started with 42");
        RunConfig other = config("training.max_steps=4");
        sequences("train.json", 24, 49);
        Path metrics = folder.resolve("run/metrics.jsonl");
        String before = Files.readString(metrics) + "{}\n";
        Files.writeString(metrics, before);
        assertThatThrownBy(() -> run(other, true))
                .isInstanceOf(TrainException.class)
                .hasMessageContaining("was trained on other data");
        assertThat(metrics).hasContent(before);
        sequences("train.json", 24, 50);
        for (Path checkpoint : new Checkpoints(folder.resolve("run"), Checkpoints.REAL, 1).all()) {
            Files.delete(checkpoint.resolve(Checkpoints.MARKER));
        }
        assertThatThrownBy(() -> run(other, true))
                .isInstanceOf(TrainException.class)
                .hasMessageContaining("none of its checkpoints is complete");
        assertThat(metrics).hasContent(before);
    }

    @Test
    void anOldRunIsRemovedOnlyWhenTheNewOneHasBegun() throws IOException {
        run(config("training.max_steps=2"), false);
        Path run = folder.resolve("run");
        String before = Files.readString(run.resolve("metrics.jsonl"));
        RunConfig again = config("training.max_steps=1", "output.overwrite=true");
        try (RunFolder _ = RunFolder.claim(again, false)) {
            assertThat(run.resolve("metrics.jsonl")).doesNotExist();
        }
        assertThat(run.resolve("metrics.jsonl")).hasContent(before);
        assertThat(Checkpoints.defect(Checkpoints.resolve(run))).isEmpty();
        run(again, false);
        assertThat(MetricsLog.read(run)).hasSize(2);
        assertThat(run.resolve("checkpoint-2")).doesNotExist();
        assertThat(run.resolve(".replaced")).doesNotExist();
    }

    @Test
    void anAdapterToContinueFromHasTheSameSettings() throws IOException {
        run(config("training.max_steps=1"), false);
        String from = "model.adapter=\"" + folder.resolve("run") + "\"";
        String to = "output.output_dir=\"" + folder.resolve("next") + "\"";
        assertThatThrownBy(() -> run(config(from, to, "quantization.lora_alpha=3"), false))
                .isInstanceOf(TrainException.class)
                .hasMessageContaining("lora_alpha: expected 3.0 as in the settings, got");
        assertThatThrownBy(() -> run(config(from, to, "quantization.use_rslora=true"), false))
                .isInstanceOf(TrainException.class)
                .hasMessageContaining("use_rslora: expected true");
        assertThatThrownBy(() -> run(config(from, to, "quantization.lora_target_modules=[q_proj]"), false))
                .isInstanceOf(TrainException.class)
                .hasMessageContaining("the model has no base_model.model.");
        assertThat(run(config(from, to, "training.max_steps=1"), false).steps).hasSize(1);
    }

    /** Three documents of three commits in two directories. */
    private Path dataset() throws IOException {
        Path dataset = Files.createDirectories(folder.resolve("dataset"));
        for (String split : List.of("train", "val", "test")) {
            try (TokenShardWriter writer = new TokenShardWriter(dataset.resolve(split + ".shard"), 640)) {
                for (int d = 0; d < 3; d++) {
                    int[] ids = IntStream.range(d, d + 30).toArray();
                    boolean[] counted = new boolean[30];
                    Arrays.fill(counted, true);
                    writer.add(
                            new TokenDocument(split + d, ids, counted),
                            new SampleOrigin("abc" + d, 86_400L * 10 * d, d == 2 ? "src/core/x" : "src"));
                }
                writer.finish();
            }
        }
        String splits = "{\"train\": {\"documents\": 3}, \"val\": {\"documents\": 3}, \"test\": {\"documents\": 3}}";
        Files.writeString(
                dataset.resolve(Dataset.MANIFEST),
                "{\"format\": \"starforge-dataset\", \"version\": 1, \"tokenizer\": {\"sha256\": \"\", \"vocabulary\":"
                        + " 640}, \"generations\": [{\"directory\": \".\", \"splits\": " + splits + "}]}");
        return dataset;
    }

    @Test
    void newerCommitsAndSomeDirectoriesWeighMore() throws IOException {
        RunConfig config = RunConfig.defaults()
                .set(List.of(
                        "data.path=\"" + dataset() + "\"",
                        "training.recency_half_life_days=10",
                        "training.directory_weights={src: 3, src/core: 5}"));
        try (DocumentSources sources = DocumentSources.open(config, Tiny.STARCODER, 640, Optional.empty())) {
            assertThat(sources.weights().of(0)).isEqualTo(0.25 * 3);
            assertThat(sources.weights().of(1)).isEqualTo(0.5 * 3);
            assertThat(sources.weights().of(2)).isEqualTo(5);
        }
        try (DocumentSources sources = DocumentSources.open(
                config.set(List.of("training.since_commit=abc0")), Tiny.STARCODER, 640, Optional.empty())) {
            assertThat(sources.weights().of(0)).isZero();
            assertThat(sources.weights().of(1)).isPositive();
        }
        assertThatThrownBy(() -> DocumentSources.open(
                        config.set(List.of("training.since_commit=zzz")), Tiny.STARCODER, 640, Optional.empty()))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("no document of the dataset is of this commit");
    }

    @Test
    void aDatasetOfAnotherTokenizerIsRefused() throws IOException {
        Path manifest = dataset().resolve(Dataset.MANIFEST);
        Files.writeString(manifest, Files.readString(manifest).replace("\"sha256\": \"\"", "\"sha256\": \"12ab\""));
        RunConfig config = RunConfig.defaults().set(List.of("data.path=\"" + manifest.getParent() + "\""));
        assertThatThrownBy(() -> DocumentSources.open(config, Tiny.STARCODER, 640, Optional.empty()))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("it was made with another tokenizer");
        Path gguf = Files.writeString(folder.resolve("model.gguf"), "a model and its tokenizer");
        assertThatThrownBy(() -> DocumentSources.open(config, gguf, 640, Optional.empty()))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("make it with dataset --tokenizer " + gguf);
        Files.writeString(manifest, Files.readString(manifest).replace("12ab", Hashes.sha256(gguf)));
        DocumentSources.open(config, gguf, 640, Optional.empty()).close();
    }
}
