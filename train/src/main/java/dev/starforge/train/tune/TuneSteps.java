package dev.starforge.train.tune;

import dev.starforge.data.Dataset;
import dev.starforge.data.SampleOrigin;
import dev.starforge.data.Split;
import dev.starforge.data.dataset.DatasetBuilder;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.report.Manifest;
import dev.starforge.data.dataset.report.TokenizerChoice;
import dev.starforge.model.gguf.GgufFileType;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.load.ModelSpec;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.text.config.Key;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.Durations;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.RunFolder;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.HeldOutLine;
import dev.starforge.train.corpus.RecencySampler;
import dev.starforge.train.eval.Evaluation;
import dev.starforge.train.merge.Merge;
import dev.starforge.train.merge.ModelFormat;
import dev.starforge.train.merge.ModelQuantizer;
import dev.starforge.train.plan.Adaptation;
import dev.starforge.train.plan.Preflight;
import dev.starforge.train.run.TrainRun;
import dev.starforge.train.text.Tokenizers;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.DoubleSupplier;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/** Runs the unfinished steps of a round; see {@link Tune}. */
final class TuneSteps {
    private static final String ADAPTER = "adapter_model.safetensors";
    private static final String MERGED = "merged.gguf";
    private static final long SHARD = 4L << 30;
    private static final double SECONDS_BETWEEN_SAVES = 30;
    private static final double MINUTE = 60;

    /** Above this share of the time, a plan says so. */
    private static final double OVER = 1.05;

    private static final int PROMPTS = 3;
    private static final int PROMPT_TOKENS = 40;

    private final Tune.Setup setup;
    private final TuneState state;
    private final TuneRound round;
    private final TuneBudget budget;
    private final RunConfig config;
    private final DoubleSupplier passed;
    private final TuneEvents events;
    private Tune.End end = Tune.End.FINISHED;

    /** @param passed seconds since the tune began */
    TuneSteps(
            Tune.Setup setup,
            TuneState state,
            TuneRound round,
            TuneBudget budget,
            RunConfig config,
            DoubleSupplier passed) {
        this.setup = setup;
        this.state = state;
        this.round = round;
        this.budget = budget;
        this.config = config;
        this.passed = passed;
        this.events = setup.events();
    }

    /** Runs the unfinished steps and returns how the round ended. */
    Tune.End run() throws IOException {
        for (TuneStep step : TuneStep.values()) {
            if (round.isDone(step)) {
                events.alreadyDone(step);
                continue;
            }
            events.begin(step);
            double from = passed.getAsDouble();
            ObjectNode facts = Jackson.object();
            Optional<Path> output = switch (step) {
                case DATASET -> Optional.of(dataset(facts));
                case TRAIN -> train(facts);
                case EVALUATE -> Optional.of(evaluate(facts));
                case MERGE -> Optional.of(merge(facts));
                case QUANTIZE -> Optional.of(quantize(facts));
            };
            if (output.isEmpty()) {
                return end;
            }
            double took = passed.getAsDouble() - from;
            if (step == TuneStep.QUANTIZE) {
                state.publish(output.get());
            }
            round.done(step, facts, output.get(), took);
            events.done(step, facts.path("summary").asString(""), took);
        }
        Files.deleteIfExists(setup.output().resolve(MERGED));
        return Tune.End.FINISHED;
    }

    private Path dataset(ObjectNode facts) {
        Path data = setup.data();
        DatasetConfig wanted =
                new DatasetConfig(setup.repository(), data, round.inputs().head(), "", config.datasetSettings());
        removeIfOther(wanted);
        new DatasetBuilder(
                        wanted,
                        tokenizer(),
                        setup.helpers().parsers().apply(DatasetBuilder.parserFolder(data)),
                        events.dataset(),
                        setup.helpers().nanoTime())
                .build();
        try (Dataset dataset = Dataset.open(data)) {
            SampleOrigin newest = new SampleOrigin("", Long.MIN_VALUE, "");
            for (int d = 0; d < dataset.documents(Split.TRAIN).count(); d++) {
                SampleOrigin origin = dataset.origin(Split.TRAIN, d);
                newest = origin.time() > newest.time() ? origin : newest;
            }
            facts.put("newest_trained", newest.commit()).put("newest_trained_time", newest.time());
            long tokens = dataset.documents(Split.TRAIN).tokens();
            facts.put("tokens", tokens);
            facts.put(
                    "summary",
                    String.format(
                            Locale.ROOT,
                            "%,d commits, %s training tokens; held out: %s",
                            dataset.commits(),
                            CountFormat.text(tokens),
                            heldOut(dataset)
                                    .map(split -> CountFormat.text(
                                                    dataset.documents(split).tokens()) + " tokens of the newest")
                                    .orElse("nothing")));
        }
        return data.resolve(Dataset.MANIFEST);
    }

    /** Removes a dataset with other settings, since a dataset only grows with the same. Trained models do not need it. */
    private void removeIfOther(DatasetConfig wanted) {
        Path manifest = wanted.out().resolve(Dataset.MANIFEST);
        if (Files.exists(manifest)
                && !Jackson.JSON
                        .readTree(manifest)
                        .path("config")
                        .equals(Jackson.JSON.readTree(Manifest.settings(wanted).toString()))) {
            events.note("the dataset is built again, since it has other settings");
            Checkpoints.remove(wanted.out());
        }
    }

    private TokenizerChoice tokenizer() {
        Path file = Files.isDirectory(setup.model()) ? setup.model().resolve("tokenizer.json") : setup.model();
        return new TokenizerChoice.ExistingTokenizer(file, Tokenizers.require(setup.model(), "tune"));
    }

    private static Optional<Split> heldOut(Dataset dataset) {
        return List.of(Split.TEST, Split.VALIDATION).stream()
                .filter(split -> dataset.documents(split).count() > 0)
                .findFirst();
    }

    private Optional<Path> train(ObjectNode facts) throws IOException {
        Path run = setup.run(round.number());
        boolean resume = hasBegun(run);
        Optional<RunConfig> wanted =
                resume ? Optional.of(resumed(RunConfig.read(run.resolve(RunFolder.CONFIG)))) : planned(facts);
        if (wanted.isEmpty()) {
            return Optional.empty();
        }
        Preflight preflight = Preflight.of(new Preflight.Setup(
                wanted.get(),
                setup.place().machine(),
                setup.place().device(),
                resume,
                setup.helpers().models(),
                Checkpoints.REAL));
        preflight.require();
        TrainRun.Setup training =
                TrainRun.Setup.of(preflight, setup.place().device(), resume, events::fallback, events.training());
        try (RunFolder folder = RunFolder.claim(wanted.get(), resume);
                TrainRun trained = new TrainRun(training)) {
            folder.finishOverwrite();
            if (run(trained) == TrainRun.End.INTERRUPTED) {
                end = Tune.End.INTERRUPTED;
                return Optional.empty();
            }
            facts.put("steps", trained.step());
            facts.put(
                    "summary",
                    trained.step() + (trained.step() == 1 ? " step; " : " steps; ") + run.resolve("report.html"));
        }
        JsonNode summary = Jackson.JSON.readTree(run.resolve("summary.json"));
        facts.put("tokens_per_second", summary.path("tokens_per_second").asDouble(budget.tokensPerSecond()));
        return Optional.of(Checkpoints.resolve(run).resolve(ADAPTER));
    }

    private TrainRun.End run(TrainRun trained) {
        try (TuneEvents.Watch _ = events.stoppable(trained::stop)) {
            return trained.run();
        }
    }

    /** The settings of a run that continues, with the time limit of this call. */
    private RunConfig resumed(RunConfig begun) {
        if (budget.seconds().isEmpty()) {
            return begun;
        }
        double limit = Math.max(1, budget.seconds().getAsDouble() - round.secondsOfOtherSteps()) / MINUTE;
        boolean same = Math.abs(limit - begun.get(Keys.MAX_MINUTES)) * MINUTE < 1;
        return same ? begun : begun.with(Keys.MAX_MINUTES, limit);
    }

    /** Settings of the training, computed from the dataset; empty if there is no training data or the user declines. */
    private Optional<RunConfig> planned(ObjectNode facts) {
        try (Dataset dataset = Dataset.open(setup.data())) {
            boolean later = !round.inputs().after().isEmpty();
            long after = later ? trainedUntil() : Long.MIN_VALUE;
            long available = RecencySampler.of(dataset, after, 0, 0).of();
            if (available == 0) {
                state.discard();
                if (round.number() == 1) {
                    throw new TrainException(
                            setup.repository() + ": has nothing to train on: " + dataset.describeDrops());
                }
                events.note(dataset.describeDrops());
                end = Tune.End.NOTHING_TO_LEARN;
                return Optional.empty();
            }
            double ofStep = TuneBudget.tokensOfStep(config);
            RunConfig wanted = unlessSet(
                    unlessSet(config, Keys.SAVE_STEPS, (int)
                            Math.max(1, SECONDS_BETWEEN_SAVES * budget.tokensPerSecond() / ofStep)),
                    Keys.EVALUATION_TOKENS,
                    budget.validationTokens());
            if (budget.seconds().isEmpty()) {
                double seconds = available * (double) config.get(Keys.EPOCHS) / budget.tokensPerSecond();
                if (seconds > Tune.CONFIRM_ABOVE_SECONDS && !events.confirm(seconds)) {
                    end = Tune.End.DECLINED;
                    return Optional.empty();
                }
                return Optional.of(wanted);
            }
            return Optional.of(inTime(wanted, facts, dataset, after, available));
        }
    }

    /** Settings of a training that uses the time left, on as many of the newest documents as it will probably read. */
    private RunConfig inTime(RunConfig wanted, ObjectNode facts, Dataset dataset, long after, long available) {
        boolean later = !round.inputs().after().isEmpty();
        double limit = budget.trainingSeconds(passed.getAsDouble());
        round.secondsOfOtherSteps(budget.seconds().orElseThrow() - limit);
        int steps = TuneBudget.mostSteps(wanted, available, later);
        double all = budget.seconds().orElseThrow() + MINUTE * round.inputs().spentMinutes();
        double share = budget.seconds().orElseThrow() / all; // earlier rounds have read the newest documents
        long tokens = (long) (budget.trainingTokens(wanted, limit) / share);
        RunConfig timed = unlessSet(wanted, Keys.NEWEST_TOKENS, (int) Math.min(Integer.MAX_VALUE, tokens))
                .with(Keys.MAX_STEPS, steps)
                .with(Keys.MAX_MINUTES, limit / MINUTE);
        RecencySampler chosen = RecencySampler.of(dataset, after, timed.get(Keys.NEWEST_TOKENS), timed.get(Keys.SEED));
        facts.put("tokens", chosen.tokens()).put("of_tokens", chosen.of());
        facts.put("commits", chosen.commits()).put("of_commits", chosen.ofCommits());
        events.note(String.format(
                Locale.ROOT,
                "%s of %s tokens (%.0f %%), newest first: %d of %d commits; training takes up to %s",
                CountFormat.text(chosen.tokens()),
                CountFormat.text(chosen.of()),
                100.0 * chosen.tokens() / chosen.of(),
                chosen.commits(),
                chosen.ofCommits(),
                Durations.text(Math.min(limit, steps * TuneBudget.tokensOfStep(timed) / budget.tokensPerSecond()))));
        double over = passed.getAsDouble() + limit + budget.evaluationSeconds() + budget.mergeSeconds();
        if (over > OVER * budget.seconds().orElseThrow()) {
            events.note("training gets its minimum, which is more than the time left; all steps take about "
                    + Durations.text(over));
        }
        return timed;
    }

    private static <T> RunConfig unlessSet(RunConfig config, Key<T> key, T value) {
        return config.isSet(key) ? config : config.with(key, value);
    }

    /** The time of the newest commit that earlier rounds trained on. */
    private long trainedUntil() {
        return round.inputs().afterTime();
    }

    private Path evaluate(ObjectNode facts) {
        Path file = setup.output().resolve("eval-" + round.number() + ".json");
        round.output(TuneStep.DATASET);
        round.output(TuneStep.TRAIN);
        ObjectNode measured;
        try (Dataset dataset = Dataset.open(setup.data())) {
            Optional<Split> split = heldOut(dataset);
            if (split.isEmpty()) {
                facts.put("summary", "nothing is held out: the history is too short to evaluate on");
                measured = Jackson.object();
            } else {
                measured = evaluate(dataset, split.get());
                facts.put("summary", split.get() == Split.TEST ? "on the newest commits" : "on the validation split");
            }
        }
        Checkpoints.writeAtomically(file, Jackson.indented(measured) + "\n");
        return file;
    }

    private ObjectNode evaluate(Dataset dataset, Split split) {
        Tokenizer tokenizer = Tokenizers.require(setup.model(), "evaluation");
        List<HeldOutLine> prompts = HeldOutLine.first(dataset.documents(split), tokenizer, PROMPTS);
        Path adapter = setup.run(round.number());
        double measured = round.facts(TuneStep.TRAIN).path("tokens_per_second").asDouble(budget.tokensPerSecond());
        RunConfig asked =
                unlessSet(config, Keys.EVALUATION_TOKENS, budget.evaluationTokens(passed.getAsDouble(), measured));
        asked = unlessSet(asked, Keys.PROMPT_TOKENS, PROMPT_TOKENS);
        asked = unlessSet(
                asked, Keys.PROMPTS, prompts.stream().map(HeldOutLine::before).toList());
        Adaptation adapted = Adaptation.forEvaluation(
                asked,
                setup.place().machine(),
                blueprint(),
                setup.place().device(),
                LoraAdapter.trainedOn(Checkpoints.resolve(adapter)));
        ObjectNode report = new Evaluation(new Evaluation.Setup(
                        adapted.config(),
                        setup.model(),
                        Optional.of(adapter),
                        tokenizer,
                        setup.place().device(),
                        adapted.precisionOfRun(),
                        adapted.fallback(events::fallback),
                        split == Split.TEST ? "test" : "validation",
                        0,
                        false,
                        Evaluation.Tools.NONE,
                        setup.helpers().nanoTime(),
                        events::note))
                .run();
        for (int i = 0; i < prompts.size() && !config.isSet(Keys.PROMPTS); i++) {
            if (report.path("prompts").path(i) instanceof ObjectNode shown) {
                shown.put("path", prompts.get(i).path())
                        .put("added", prompts.get(i).added())
                        .put("after", prompts.get(i).after());
            }
        }
        return report;
    }

    private Optional<ModelSpec> blueprint() {
        try (ModelFiles files = ModelFiles.open(setup.model())) {
            return Optional.of(files.spec());
        }
    }

    private Path merge(ObjectNode facts) throws IOException {
        round.output(TuneStep.TRAIN);
        Path adapter = Checkpoints.resolve(setup.run(round.number()));
        Path merged = setup.output().resolve(MERGED);
        Files.deleteIfExists(merged);
        try (Merge merge = new Merge(
                setup.model(),
                adapter,
                LoraAdapter.trainedOn(adapter),
                setup.place().device())) {
            Merge.Result result = merge.write(merged, ModelFormat.GGUF, "F16", SHARD);
            facts.put("summary", result.proof().verdict());
        }
        return merged;
    }

    /** Writes the quantized model. Its file name is the same in every round, so editors and scripts need no change. */
    private Path quantize(ObjectNode facts) throws IOException {
        Path merged = round.output(TuneStep.MERGE);
        Path quantized = setup.output().resolve("quantized.gguf");
        ObjectNode report = new ModelQuantizer(
                        merged,
                        GgufFileType.Q8_0,
                        Optional.empty(),
                        true,
                        setup.place().device())
                .write(quantized, (tensor, done, total) -> {});
        Path model = Files.createDirectories(setup.output().resolve("model")).resolve(name() + ".gguf");
        move(ModelQuantizer.reportOf(quantized), ModelQuantizer.reportOf(model));
        move(quantized, model);
        facts.put(
                "summary",
                String.format(
                        Locale.ROOT,
                        "%s, %.1f MB, largest relative error of a tensor %.4f",
                        model,
                        report.path("bytes").doubleValue() / 1e6,
                        report.path("largest_relative_error").doubleValue()));
        return model;
    }

    private static void move(Path from, Path to) throws IOException {
        Files.move(from, to, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    private String name() {
        Path folder = setup.repository().toAbsolutePath().normalize().getFileName();
        String repository = folder == null ? "repository" : folder.toString().replaceAll("\\.git$", "");
        return (repository + "-tuned").replaceAll("[^A-Za-z0-9._-]", "-");
    }

    /** Returns true if the run in a folder has started and can be resumed. */
    static boolean hasBegun(Path run) {
        return Files.exists(run.resolve("metrics.jsonl"));
    }

    /** The metrics of a round; empty if nothing was held out or the round did not reach the evaluation. */
    static Optional<ObjectNode> evaluation(TuneRound round) {
        if (!round.isDone(TuneStep.EVALUATE)) {
            return Optional.empty();
        }
        Path file = round.output(TuneStep.EVALUATE);
        try {
            return Jackson.JSON.readTree(Files.readString(file)) instanceof ObjectNode measured
                            && measured.has("tuned_minus_base")
                    ? Optional.of(measured)
                    : Optional.empty();
        } catch (IOException failure) {
            throw new TrainException(file + ": cannot be read: " + failure, failure);
        }
    }
}
