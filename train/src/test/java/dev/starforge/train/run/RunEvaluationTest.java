package dev.starforge.train.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.device.Device;
import dev.starforge.text.config.ConfigException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.MetricsLog;
import dev.starforge.train.checkpoint.RunFolder;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.DataFacts;
import dev.starforge.train.run.Runs.Said;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Evaluations of a run: on what, when, and that they can be stopped; and runs that become longer. */
final class RunEvaluationTest {
    @TempDir
    Path folder;

    private RunConfig config(String... settings) throws IOException {
        List<String> all = new ArrayList<>(List.of("training.num_epochs=1", "training.eval_steps=0"));
        all.addAll(List.of(settings));
        return Runs.config(folder, all.toArray(String[]::new));
    }

    private JsonNode json(String name) {
        return new JsonMapper().readTree(folder.resolve("run").resolve(name));
    }

    /** Stops a run when its evaluation has done a batch, and notes which checkpoints there are by then. */
    private final class Stopping extends Said {
        private final AtomicReference<TrainRun> run = new AtomicReference<>();
        private boolean saved;

        @Override
        public void evaluating(long step, long tokens, long all, double seconds) {
            super.evaluating(step, tokens, all, seconds);
            saved = Checkpoints.defect(folder.resolve("run/checkpoint-" + step)).isEmpty();
            run.get().stop();
        }
    }

    private Stopping stopped(RunConfig config) {
        Stopping said = new Stopping();
        try (Device device = Tiny.cpu(2);
                RunFolder _ = RunFolder.claim(config, false);
                TrainRun run = new TrainRun(Runs.setup(config, device, false, said))) {
            said.run.set(run);
            assertThat(run.run()).isEqualTo(TrainRun.End.INTERRUPTED);
        }
        return said;
    }

    @Test
    void theLastEvaluationComesAfterTheLastCheckpointAndCanBeStopped() throws IOException {
        RunConfig config = config("optimization.batch_size=1");
        Stopping first = stopped(config);
        assertThat(first.saved).as("the state is saved before it is evaluated").isTrue();
        assertThat(first.evaluating).as("it stops after the batch it is at").hasSize(1);
        assertThat(first.evaluations).isEmpty();
        assertThat(json("summary.json").path("status").stringValue()).isEqualTo("interrupted");

        Said second = Runs.run(config, true);
        assertThat(second.steps).isEmpty();
        assertThat(second.evaluations).hasSize(1);
        assertThat(json("latest/state.json").path("evaluated_at").longValue()).isEqualTo(first.steps.size());
        assertThat(Checkpoints.target(folder.resolve("run"), "best")).isPresent();
        assertThat(Checkpoints.defect(Checkpoints.resolve(folder.resolve("run"))))
                .isEmpty();

        RunConfig whole = config.set(List.of("output.output_dir=\"" + folder.resolve("whole") + "\""));
        assertThat(Runs.run(whole, false).evaluations).isEqualTo(second.evaluations);
    }

    @Test
    void anEvaluationInTheMiddleThatIsStoppedIsDoneAgain() throws IOException {
        RunConfig config = config("optimization.batch_size=2", "training.eval_steps=5");
        Stopping first = stopped(config);
        assertThat(first.steps).hasSize(5);
        Said second = Runs.run(config, true);
        RunConfig whole = config.set(List.of("output.output_dir=\"" + folder.resolve("whole") + "\""));
        Said other = Runs.run(whole, false);
        assertThat(second.evaluations).isEqualTo(other.evaluations);
        List<Double> losses = new ArrayList<>(first.losses());
        losses.addAll(second.losses());
        assertThat(losses).isEqualTo(other.losses());
    }

    @Test
    void aSampleIsTheSameEveryTimeAndSaysSo() throws IOException {
        Runs.sequences(folder, "held.json", 40, 30);
        String held = "data.validation=\"" + folder.resolve("held.json") + "\"";
        RunConfig config = config(held, "evaluation.max_tokens=200", "training.eval_steps=2", "training.max_steps=4");
        Said said = Runs.run(config, false);
        assertThat(said.notes).contains("evaluations are on 180 of 1,200 tokens (174 count in the loss), seed 42");
        assertThat(said.evaluating).contains(180L).allMatch(tokens -> tokens <= 180);
        JsonNode sample = json("summary.json").path("val_sample");
        assertThat(sample.path("tokens").intValue()).isEqualTo(180);
        assertThat(sample.path("of").intValue()).isEqualTo(1200);
        assertThat(Files.readString(folder.resolve("run/report.html"))).contains("180 of 1,200 tokens");
        try (Device device = Tiny.cpu(1);
                RunFolder _ = RunFolder.claim(config.set(List.of("output.overwrite=true")), false);
                TrainRun run = new TrainRun(Runs.setup(config, device, false, new Said() {
                    @Override
                    public void evaluated(long step, double loss, boolean best) {
                        assertThat(loss).isEqualTo(said.evaluations.get(evaluations.size()));
                        super.evaluated(step, loss, best);
                    }
                }))) {
            run.run();
        }
        RunConfig everything = config.set(
                List.of("evaluation.max_tokens=all", "output.output_dir=\"" + folder.resolve("everything") + "\""));
        assertThat(Runs.run(everything, false).evaluations).isNotEqualTo(said.evaluations);
    }

    @Test
    void theTimeOfARunIncludesItsEvaluations() throws IOException {
        Runs.run(config("training.eval_steps=2"), false);
        JsonNode summary = json("summary.json");
        double training = summary.path("training_seconds").doubleValue();
        double evaluation = summary.path("evaluation_seconds").doubleValue();
        assertThat(training).isPositive();
        assertThat(evaluation).isPositive();
        assertThat(summary.path("elapsed_seconds").doubleValue()).isGreaterThanOrEqualTo(training + evaluation);
        assertThat(summary.path("loss_tokens").longValue())
                .isPositive()
                .isLessThan(summary.path("tokens").longValue());
    }

    @Test
    void aFinishedRunCanBecomeLongerButNotShorter() throws IOException {
        Said first = Runs.run(config(), false);
        int steps = first.steps.size();
        assertThatThrownBy(() -> Runs.run(config("training.max_steps=2"), true))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("can become longer, but not shorter");
        Said second = Runs.run(config("training.num_epochs=2"), true);
        assertThat(second.notes)
                .anyMatch(note -> note.contains("continues to step " + 2 * steps + " instead of " + steps)
                        && note.contains("learning rate is that of the longer schedule"));
        assertThat(second.steps).hasSize(steps);
        assertThat(second.steps.getFirst().step()).isEqualTo(steps + 1);
        assertThat(second.steps.getFirst().epoch()).isGreaterThan(1);
        assertThat(MetricsLog.read(folder.resolve("run"))).hasSize(2 * steps + 2);
    }

    /** Examples of a context, which does not count, and a target, which does, of so many tokens each. */
    private Path examples(String name, int... sizes) throws IOException {
        StringBuilder all = new StringBuilder();
        for (int size : sizes) {
            String ids = IntStream.range(0, size).mapToObj(String::valueOf).collect(Collectors.joining(",", "[", "]"));
            all.append(all.isEmpty() ? "[" : ",").append("{\"context\": " + ids + ", \"target\": " + ids + "}");
        }
        return Files.writeString(folder.resolve(name), all.append("]"));
    }

    @Test
    void longIndivisibleDocumentsAreDroppedAndCounted() throws IOException {
        Path examples = examples("examples.json", 10, 20, 30, 31, 33, 40, 60);
        RunConfig config = config("data.train=\"" + examples + "\"", "training.max_steps=1");
        Said said = Runs.run(config, false);
        DataFacts facts = said.data.get("train");
        assertThat(facts.documents()).isEqualTo(4);
        assertThat(facts.dropped()).isEqualTo(3);
        assertThat(facts.droppedLossTokens()).isEqualTo(33 + 40 + 60);
        assertThat(facts.lossTokens()).isEqualTo(10 + 20 + 30 + 31);
        assertThat(facts.describeDropped())
                .contains("3 of 7 documents are longer than the context of 64 tokens")
                .contains("--set samples.context_length=64");
        JsonNode summary = json("summary.json").path("train_data");
        assertThat(summary.path("dropped_documents").intValue()).isEqualTo(3);
        assertThat(Files.readString(folder.resolve("run/report.html"))).contains("3 of 7 documents are longer");
    }

    @Test
    void whereNothingFitsTheRunIsRefused() throws IOException {
        Path examples = examples("examples.json", 40, 60);
        RunConfig config = config("data.train=\"" + examples + "\"");
        assertThatThrownBy(() -> Runs.run(config, false))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("model.context_window")
                .hasMessageContaining("no training data is left: 2 of 2 documents are longer");
        assertThat(folder.resolve("run")).doesNotExist();
    }
}
