package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.cli.model.PretrainedModels;
import dev.starforge.cli.process.GrammarProcess;
import dev.starforge.data.Dataset;
import dev.starforge.data.Split;
import dev.starforge.data.dataset.BuildProgress;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.load.ModelSpec;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.tensor.device.Selection;
import dev.starforge.text.config.ConfigException;
import dev.starforge.text.file.Hashes;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.RunEvents;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.DataFacts;
import dev.starforge.train.corpus.RecencySampler;
import dev.starforge.train.plan.MachineFacts;
import dev.starforge.train.tune.Tune;
import dev.starforge.train.tune.TuneEvents;
import dev.starforge.train.tune.TunePlan;
import dev.starforge.train.tune.TuneStart;
import dev.starforge.train.tune.TuneStep;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** A whole tune of a model so small that it takes seconds: ended between all steps and continued, and again after new commits. */
final class TuneTest {
    private static final String CONFIG = """
        {"architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2", "vocab_size": 640, "hidden_size": 32,
         "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
         "max_position_embeddings": 128, "norm_epsilon": 1e-05, "use_bias": true, "hidden_act": "gelu_pytorch_tanh",
         "tie_word_embeddings": true, "sliding_window": null, "rope_theta": 10000.0, "bos_token_id": 0,
         "eos_token_id": 0, "dtype": "float32", "initializer_range": 0.05}
        """;

    @TempDir
    Path folder;

    private Device device;
    private MachineFacts machine;
    private int commits;

    /** A clock that advances by 0.1 s per reading, so that speed is measured in a few steps. */
    private final AtomicLong clock = new AtomicLong();

    @BeforeEach
    void prepare() throws IOException, InterruptedException {
        Selection selection = Selection.choose("cpu");
        device = selection.backend().open(new DeviceOptions(0, 2, folder));
        machine = MachineFacts.of("cpu", selection.backend().probe().devices().getFirst());
        base("base", 1);
        Files.createDirectory(repository());
        git("init", "-q", "-b", "main");
        commit(20);
    }

    @AfterEach
    void close() {
        device.close();
    }

    private Path base(String name, int seed) throws IOException {
        Path base = Files.createDirectory(folder.resolve(name));
        ModelSpec.of("config.json", CONFIG)
                .initialize(base, seed, new NullOps(device, Precision.FLOAT32, Fallback.QUIET).scope());
        Files.copy(Path.of("..", "golden", "models", "starcoder2", "tokenizer.json"), base.resolve("tokenizer.json"));
        return base;
    }

    private Path repository() {
        return folder.resolve("repo");
    }

    private void git(String... args) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("git", "-c", "user.name=A", "-c", "user.email=a@b.example"));
        command.addAll(List.of(args));
        ProcessBuilder builder =
                new ProcessBuilder(command).directory(repository().toFile());
        builder.environment().put("HOME", folder.toString());
        String date = (1_700_000_000 + 3600L * commits) + " +0000";
        builder.environment().put("GIT_AUTHOR_DATE", date);
        builder.environment().put("GIT_COMMITTER_DATE", date);
        assertThat(builder.inheritIO().start().waitFor()).isZero();
    }

    /** Adds {@code count} commits, each with a new file of functions. */
    private void commit(int count) throws IOException, InterruptedException {
        for (int i = 0; i < count; i++, commits++) {
            StringBuilder code = new StringBuilder();
            for (int k = 0; k < 3; k++) {
                code.append(
                        "def part_%1$d_%2$d(value_%1$d):\n    total_%2$d = value_%1$d * %3$d\n    return total_%2$d - %1$d\n\n"
                                .formatted(commits, k, commits * 31 + k * 7));
            }
            Files.writeString(repository().resolve("part" + commits + ".py"), code);
            git("add", ".");
            git("commit", "-q", "-m", "Part " + commits);
        }
    }

    /** Simulates a process that is killed. */
    private static final class Killed extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    /** Writes down what happens, and ends it at a step, or in the middle of training. */
    private static final class Watcher implements TuneEvents, RunEvents {
        private final TuneStep last;
        private final boolean inside;
        private final List<String> seen = new ArrayList<>();
        private final List<String> fallbacks = new ArrayList<>();
        private final List<String> notes = new ArrayList<>();
        private DataFacts trained;

        Watcher(TuneStep last, boolean inside) {
            this.last = last;
            this.inside = inside;
        }

        @Override
        public void plan(TunePlan plan) {
            seen.add("plan " + plan.round() + (plan.start() == TuneStart.FIRST ? "" : " " + plan.start()));
            notes.addAll(plan.notes());
        }

        @Override
        public boolean confirm(double seconds) {
            return false;
        }

        @Override
        public void begin(TuneStep step) {
            if (step == last && !inside) {
                throw new Killed();
            }
            seen.add(step.label());
        }

        @Override
        public void done(TuneStep step, String what, double seconds) {}

        @Override
        public void alreadyDone(TuneStep step) {
            seen.add(step.label() + " before");
        }

        @Override
        public void note(String text) {
            notes.add(text);
        }

        @Override
        public void fallback(String text) {
            fallbacks.add(text);
        }

        @Override
        public BuildProgress dataset() {
            return new BuildProgress() {
                @Override
                public void begin(String stage, long total) {
                    if (last == TuneStep.DATASET && inside && stage.equals("samples")) {
                        throw new Killed();
                    }
                }

                @Override
                public void advance() {}

                @Override
                public void message(String text) {}
            };
        }

        @Override
        public RunEvents training() {
            return this;
        }

        @Override
        public Watch stoppable(Runnable stop) {
            return () -> {};
        }

        @Override
        public void step(Step step) {
            if (last == TuneStep.TRAIN && inside && step.step() == 5) {
                throw new Killed();
            }
        }

        @Override
        public void data(String split, DataFacts facts) {
            trained = split.equals("train") ? facts : trained;
        }

        @Override
        public void evaluating(long step, long tokens, long all, double seconds) {}

        @Override
        public void evaluated(long step, double loss, boolean best) {}
    }

    private Tune.Result tune(String base, String output, Watcher watcher, String... settings) throws IOException {
        RunConfig config = RunConfig.defaults()
                .set(List.of(
                        "training.max_steps=12",
                        "training.save_steps=2",
                        "training.samples=0",
                        "optimization.learning_rate=2e-2",
                        "quantization.load_in_4bit=false",
                        "device.attention=plain"))
                .set(List.of(settings));
        return new Tune(new Tune.Setup(
                        repository(),
                        folder.resolve(output),
                        config,
                        base,
                        folder.resolve(base),
                        new Tune.Length(OptionalDouble.empty(), false),
                        new Tune.Place(machine, device, "a test"),
                        new Tune.Helpers(
                                new PretrainedModels(), GrammarProcess::starter, () -> clock.addAndGet(100_000_000)),
                        watcher))
                .run();
    }

    private static Watcher undisturbed() {
        return new Watcher(TuneStep.QUANTIZE, true);
    }

    @Test
    void killedAnywhereItContinuesToTheSameModel() throws IOException {
        Watcher alone = undisturbed();
        Tune.Result whole = tune("base", "whole", alone);
        assertThat(whole.end()).isEqualTo(Tune.End.FINISHED);
        assertThat(alone.seen).containsExactly("plan 1", "dataset", "train", "evaluate", "merge", "quantize");
        assertThat(alone.fallbacks)
                .as("of training, of the base and of the tuned model")
                .contains("AttentionGrad runs as its expansion on cpu")
                .filteredOn("Attention runs as its expansion on cpu"::equals)
                .hasSizeGreaterThan(1);
        JsonNode difference =
                whole.evaluation().orElseThrow().path("tuned_minus_base").path("bits_per_byte");
        assertThat(difference.path("high").doubleValue())
                .as(difference.toString())
                .isNegative();

        for (TuneStep step : List.of(TuneStep.DATASET, TuneStep.TRAIN)) {
            assertThatThrownBy(() -> tune("base", "broken", new Watcher(step, true)))
                    .isInstanceOf(Killed.class);
        }
        for (TuneStep step : List.of(TuneStep.EVALUATE, TuneStep.MERGE, TuneStep.QUANTIZE)) {
            assertThatThrownBy(() -> tune("base", "broken", new Watcher(step, false)))
                    .isInstanceOf(Killed.class);
        }
        Watcher last = undisturbed();
        Tune.Result continued = tune("base", "broken", last);
        assertThat(continued.end()).isEqualTo(Tune.End.FINISHED);
        assertThat(last.seen)
                .containsExactly(
                        "plan 1 RESUME",
                        "dataset before",
                        "train before",
                        "evaluate before",
                        "merge before",
                        "quantize");
        Path model = continued.model().orElseThrow();
        assertThat(model).hasFileName("repo-tuned.gguf");
        assertThat(Hashes.sha256(model)).isEqualTo(Hashes.sha256(whole.model().orElseThrow()));
        assertThat(folder.resolve("broken").resolve("merged.gguf")).doesNotExist();
        try (ModelFiles files = ModelFiles.open(model)) {
            assertThat(files.tensors()).anyMatch(tensor -> tensor.dtype().equals("Q8_0"));
        }
    }

    @Test
    void newCommitsAloneAreTrainedOn() throws IOException, InterruptedException {
        Watcher first = undisturbed();
        Tune.Result begun = tune("base", "out", first);
        Watcher idle = undisturbed();
        assertThat(tune("base", "out", idle).end()).isEqualTo(Tune.End.UP_TO_DATE);
        assertThat(idle.seen).isEmpty();
        base("other", 2);
        assertThatThrownBy(() -> tune("other", "out", undisturbed()))
                .isInstanceOf(TrainException.class)
                .hasMessageContaining("tunes base");

        commit(10);
        Watcher second = undisturbed();
        Tune.Result grown = tune("base", "out", second);
        assertThat(grown.end()).isEqualTo(Tune.End.FINISHED);
        assertThat(second.seen).startsWith("plan 2 NEW_COMMITS", "dataset", "train");
        assertThat(grown.model()).isEqualTo(begun.model());
        String newest = begun.round()
                .path("steps")
                .path("dataset")
                .path("newest_trained")
                .asString("");
        assertThat(grown.round().path("after").asString("")).isEqualTo(newest);
        RunConfig trained = RunConfig.read(folder.resolve("out/runs/2/config.yaml"));
        assertThat(trained.show("model.adapter")).endsWith("runs/1");
        try (Dataset dataset = Dataset.open(folder.resolve("out").resolve("data"))) {
            long after = grown.round().path("after_time").asLong();
            RecencySampler fresh = RecencySampler.of(dataset, after, 0, 0);
            assertThat(second.trained.documents()).isEqualTo(fresh.documents().cardinality());
            assertThat(fresh.ofCommits()).isBetween(7, 9);
            assertThat(first.trained.documents() + second.trained.documents())
                    .isGreaterThanOrEqualTo(dataset.documents(Split.TRAIN).count());
            RecencySampler some = RecencySampler.of(dataset, Long.MIN_VALUE, 400, 42);
            assertThat(some.tokens()).isBetween(400L, 700L);
            assertThat(some.commits()).isLessThan(some.ofCommits());
        }
    }

    /** Without new commits, too, a call does what it asks for, and says what it reuses. */
    @Test
    void moreStepsContinueAndOtherSettingsTrainAgain() throws IOException {
        tune("base", "out", undisturbed());
        Watcher idle = undisturbed();
        assertThat(tune("base", "out", idle, "device.threads=1").note()).contains("no new commits");
        assertThat(idle.seen).isEmpty();

        Watcher more = undisturbed();
        Tune.Result longer = tune("base", "out", more, "training.max_steps=14");
        assertThat(more.seen).startsWith("plan 2 LONGER", "dataset", "train").endsWith("quantize");
        assertThat(more.notes).anyMatch(note -> note.contains("adapter of") && note.contains("runs/1 are reused"));
        assertThat(longer.round().path("from").asInt()).isEqualTo(1);
        RunConfig trained = RunConfig.read(folder.resolve("out/runs/2/config.yaml"));
        assertThat(trained.show("model.adapter")).endsWith("runs/1");
        assertThat(trained.show("training.since_commit")).isEmpty();

        Watcher again = undisturbed();
        String[] others = {"training.max_steps=14", "quantization.lora_rank=4", "dataset.samples.fim_files=0.4"};
        Tune.Result other = tune("base", "out", again, others);
        assertThat(again.seen).startsWith("plan 3 OTHER_SETTINGS");
        assertThat(again.notes)
                .anyMatch(note -> note.contains("quantization.lora_rank: default -> 4"))
                .contains("the dataset is built again, since it has other settings");
        assertThat(other.round().path("from").asInt()).isZero();
        assertThat(RunConfig.read(folder.resolve("out/runs/3/config.yaml")).show("model.adapter"))
                .isEmpty();
        Watcher kept = undisturbed();
        assertThat(tune("base", "out", kept, "training.max_steps=14").end())
                .as("settings that are not repeated stay in force")
                .isEqualTo(Tune.End.UP_TO_DATE);
    }

    @Test
    void anUnfinishedRoundStartsOverWithOtherSettings() throws IOException {
        assertThatThrownBy(() -> tune("base", "out", new Watcher(TuneStep.TRAIN, true)))
                .isInstanceOf(Killed.class);
        Watcher again = undisturbed();
        Tune.Result other = tune("base", "out", again, "quantization.lora_rank=4");
        assertThat(again.seen).startsWith("plan 1 RESTART", "dataset", "train");
        assertThat(other.end()).isEqualTo(Tune.End.FINISHED);
        assertThat(RunConfig.read(folder.resolve("out/runs/1/config.yaml")).show("quantization.lora_rank"))
                .isEqualTo("4");
    }

    @Test
    void settingsThatTuneDecidesAreRefusedBeforeAnyWork() {
        for (String setting : List.of(
                "model.adapter=x", "training.since_commit=abc", "training.max_minutes=3", "dataset.tokenizer=x")) {
            assertThatThrownBy(() -> tune("base", "out", undisturbed(), setting))
                    .isInstanceOf(ConfigException.class)
                    .hasMessageContaining("tune ");
        }
        assertThat(folder.resolve("out")).doesNotExist();
    }

    /** One file for all commands names the data of train; tune makes its own, and says so. */
    @Test
    void filesOfTrainAreNotUsed() throws IOException {
        Watcher watcher = undisturbed();
        Tune.Result result =
                tune("base", "out", watcher, "data.path=data", "data.train=none.json", "data.validation=none.json");
        assertThat(result.end()).isEqualTo(Tune.End.FINISHED);
        assertThat(watcher.notes)
                .anyMatch(
                        note -> note.startsWith("not used") && note.endsWith("data.path, data.train, data.validation"));
    }

    @Test
    void otherInputsAreRefused() throws IOException {
        assertThatThrownBy(() -> tune("base", "out", new Watcher(TuneStep.TRAIN, false)))
                .isInstanceOf(Killed.class);
        base("other", 2);
        assertThatThrownBy(() -> tune("other", "out", undisturbed()))
                .isInstanceOf(TrainException.class)
                .hasMessageContaining("tunes base")
                .hasMessageContaining("--out");
        Path taken = Files.createDirectory(folder.resolve("taken"));
        Files.writeString(taken.resolve("thesis.txt"), "mine");
        assertThatThrownBy(() -> tune("base", "taken", undisturbed()))
                .isInstanceOf(TrainException.class)
                .hasMessageContaining("thesis.txt");
        assertThat(taken).isDirectoryContaining(path -> path.endsWith("thesis.txt"));
    }
}
