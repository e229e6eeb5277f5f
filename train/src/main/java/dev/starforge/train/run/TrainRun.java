package dev.starforge.train.run;

import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.tensor.device.Usage;
import dev.starforge.text.config.Key;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.Durations;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.MetricsLog;
import dev.starforge.train.checkpoint.RunEvents;
import dev.starforge.train.checkpoint.RunFolder;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.FimTokens;
import dev.starforge.train.corpus.RunData;
import dev.starforge.train.corpus.TrainingExample;
import dev.starforge.train.plan.Adaptation;
import dev.starforge.train.plan.Machine;
import dev.starforge.train.plan.Preflight;
import dev.starforge.train.text.Tokenizers;
import dev.starforge.train.trainer.Trainer;
import dev.starforge.train.weights.ScratchModel;
import dev.starforge.train.weights.TrainableModel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import tools.jackson.databind.node.ObjectNode;

/**
 * A training run, from the first step or from a checkpoint to the last step. It depends only on the settings, the data
 * and the step number, so a resumed run gives the losses of an uninterrupted one, bit for bit.
 *
 * <p>A step is a number of sequences. The micro-batch size depends on memory and is halved if memory runs out. {@link
 * #stop} may be called from another thread; all other methods must be called from one thread.
 */
public final class TrainRun implements AutoCloseable {
    private static final int NOT_FINITE = 3;

    private final Setup setup;
    private final RunConfig config;
    private final Path run;
    private final Device device;
    private final ModelFiles files;
    private final TrainableModel trainable;
    private final RunData data;
    private final DataLoader loader;
    private final Validation validation;
    private final StepMemory memory;
    private final Trainer trainer;
    private final Checkpoints checkpoints;
    private final SavedState saved;
    private final StepPlan plan;
    private final GenerationSamples samples;
    private MetricsLog metrics;
    private volatile boolean stopping;

    private final RunState state = new RunState();
    private List<List<Integer>> sequences = List.of();
    private int plannedEpoch = -1;
    private Optional<Supplier<List<List<TrainingExample>>>> ahead = Optional.empty(); // of the next step
    private long begun;
    private double elapsedBefore;

    /**
     * Inputs of a run.
     *
     * @param config effective settings
     * @param model folder or file of the model
     * @param memoryBytes memory to plan with; 0 if unknown
     * @param resume true to resume from the newest checkpoint if there is one
     */
    public record Setup(
            RunConfig config,
            Path model,
            Optional<Tokenizer> tokenizer,
            Device device,
            Precision precision,
            Fallback fallback,
            long memoryBytes,
            boolean resume,
            Checkpoints.Disk disk,
            LongSupplier nanoTime,
            RunEvents events) {
        /**
         * Creates the setup of a run whose preflight found no failure.
         *
         * @param fallbacks receives the operations that run as their expansion
         */
        public static Setup of(
                Preflight preflight, Device device, boolean resume, Consumer<String> fallbacks, RunEvents events) {
            Adaptation adapted = preflight.adaptation();
            Path model = preflight
                    .modelPath()
                    .orElseGet(() -> ScratchModel.prepare(
                            adapted.config(), preflight.draft().orElseThrow(), device));
            return new Setup(
                    adapted.config(),
                    model,
                    Tokenizers.find(model),
                    device,
                    adapted.precisionOfRun(),
                    adapted.fallback(fallbacks),
                    adapted.budget(),
                    resume,
                    Checkpoints.REAL,
                    System::nanoTime,
                    events);
        }
    }

    /** How a run ended. */
    public enum End {
        FINISHED,
        STOPPED_EARLY,
        INTERRUPTED
    }

    public TrainRun(Setup setup) {
        this.setup = setup;
        this.config = setup.config();
        this.run = Path.of(config.get(Keys.OUTPUT));
        this.device = setup.device();
        List<AutoCloseable> opened = new ArrayList<>();
        try {
            files = ModelFiles.open(setup.model());
            opened.add(files);
            trainable =
                    TrainableModel.of(config, files, setup.model(), device, setup.precision(), setup.events()::note);
            opened.add(trainable);
            int vocabulary = trainable.model().info().vocabSize();
            Preflight.requireFit(config, trainable.model().info());
            data = RunData.open(config, setup.model(), vocabulary, setup.tokenizer());
            opened.add(data);
            loader = new DataLoader(data.train(), config.get(Keys.LOADERS));
            opened.add(loader);
            validation = new Validation(data.validation(), data.sample());
            memory = new StepMemory(config, trainable, setup.memoryBytes());
            trainer = memory.trainer(setup);
            opened.add(trainer);
            plan = new StepPlan(config, countSteps());
            state.sequencesAtATime = config.get(Keys.BATCH);
            saved = new SavedState(run, config, trainer, plan, data.sources(), device, setup.events()::note);
            checkpoints = new Checkpoints(run, setup.disk(), config.get(Keys.SAVE_LIMIT));
            checkpoints.clean();
            samples = new GenerationSamples(run, config, setup, trainable.model(), data.sources());
            Optional<Path> from = setup.resume() ? checkpoints.newest(setup.events()::note) : Optional.empty();
            if (setup.resume() && from.isEmpty() && !checkpoints.all().isEmpty()) {
                throw new TrainException(run + ": cannot be resumed: none of its checkpoints is complete; set "
                        + "output.overwrite, without --resume, to start again");
            }
            from.ifPresent(checkpoint -> {
                saved.restore(checkpoint, state);
                trainable.restore(checkpoint);
                elapsedBefore = state.elapsedSeconds;
            });
            reportData(from.isPresent());
            Checkpoints.writeAtomically(run.resolve(RunFolder.CONFIG), config.yaml());
            metrics = new MetricsLog(
                    run,
                    from.map(path -> MetricsLog.lines(path.resolve(MetricsLog.FILE)))
                            .orElse(List.of()));
            opened.add(metrics);
            begun = setup.nanoTime().getAsLong();
        } catch (RuntimeException failure) {
            for (AutoCloseable each : opened.reversed()) {
                closeQuietly(each, failure);
            }
            throw failure;
        }
    }

    private static void closeQuietly(AutoCloseable each, RuntimeException failure) {
        try {
            each.close();
        } catch (Exception further) {
            failure.addSuppressed(further);
        }
    }

    /** Reports the data, what is dropped and which features are off, before the first step. */
    private void reportData(boolean resumed) {
        if (setup.resume() && !resumed) {
            setup.events().note("no checkpoint was written yet: the run starts from the beginning");
        }
        if (config.get(Keys.FIM_RATE) > 0
                && setup.tokenizer().flatMap(FimTokens::of).isEmpty()) {
            setup.events().note("fill-in-the-middle is off: the tokenizer has no tokens for it");
        }
        setup.events().data("train", data.train().facts());
        if (data.sources().validation().count() > 0) {
            setup.events().data("validation", data.validation().facts());
        }
        if (!data.sample().windows().isEmpty()) {
            setup.events().note("evaluations are on " + data.sample().describe());
        }
    }

    private int perStep() {
        return config.get(Keys.BATCH) * config.get(Keys.ACCUMULATION);
    }

    private long countSteps() {
        if (config.get(Keys.MAX_STEPS) > 0) {
            return config.get(Keys.MAX_STEPS);
        }
        long count = 0;
        for (int e = 0; e < config.get(Keys.EPOCHS); e++) {
            count += (data.train().epoch(e).size() + perStep() - 1) / perStep();
        }
        return count;
    }

    /** Requests the run to end after the current step. */
    public void stop() {
        stopping = true;
    }

    /** Total steps, which can change during a run with a time limit. */
    public long steps() {
        return plan.steps();
    }

    /** Number of finished steps. */
    public long step() {
        return state.step;
    }

    /** Describes the device, the model and the length of an epoch. */
    public String describe() {
        long trained = trainable.parameters().values().stream()
                .mapToLong(parameter -> parameter.shape().size())
                .sum();
        return String.format(
                Locale.ROOT,
                "%s on %s, %,d parameters trained, %.2f %% of all; %,d tokens count in the loss of an epoch; %s of"
                        + " %d sequences%s",
                files.architecture(),
                device.name(),
                trained,
                100.0 * trained / (hasAdapter() ? trained + stored() : trained),
                data.train().facts().lossTokens(),
                plan.hasTimeLimit()
                        ? "as many steps as fit into "
                                + Durations.text(60 * config.get(Keys.MAX_MINUTES) - elapsedBefore)
                        : String.format(Locale.ROOT, "%,d steps", steps()),
                perStep(),
                state.step > 0 ? "; resumes at step " + state.step : "");
    }

    private long stored() {
        return files.tensors().stream()
                .mapToLong(tensor -> tensor.shape().size())
                .sum();
    }

    private boolean hasAdapter() {
        return config.get(Keys.LORA);
    }

    /** Next commands by purpose; empty for an interrupted run. */
    public Map<String, String> nextCommands(End end) {
        if (end == End.INTERRUPTED) {
            return Map.of();
        }
        Optional<String> heldOut = data.sources().test().count() > 0
                ? Optional.of("test")
                : data.sources().validation().count() > 0 ? Optional.of("validation") : Optional.empty();
        return NextCommands.of(run, hasAdapter(), !Files.isDirectory(setup.model()), heldOut);
    }

    /** What to do if a resumed run has no steps left; empty otherwise. */
    public String finishedAdvice() {
        if (state.step < steps()) {
            return "";
        }
        Key<?> length =
                plan.hasTimeLimit() ? Keys.MAX_MINUTES : config.get(Keys.MAX_STEPS) > 0 ? Keys.MAX_STEPS : Keys.EPOCHS;
        return "the run has done all of its " + steps() + " steps; to continue, raise " + length.path() + " (now "
                + config.get(length) + ") with --resume, or start a new run with "
                + (hasAdapter() ? "model.adapter" : "model.pretrained_model") + " set to "
                + (hasAdapter() ? run : run.resolve("latest"));
    }

    public End run() {
        if (state.step == 0 && !samples.before(() -> stopping)) {
            return interrupted();
        }
        End end = End.FINISHED;
        plan.begin(state.step, elapsedBefore + since(begun));
        while (state.step < steps()) {
            if (due(config.get(Keys.EVAL_STEPS)) && needsEvaluation() && !evaluate()) {
                return interrupted();
            }
            if (patienceIsExhausted()) {
                end = End.STOPPED_EARLY;
                break;
            }
            if (due(config.get(Keys.SAVE_STEPS))) {
                save();
            }
            if (stopping) {
                return interrupted();
            }
            next();
        }
        if (needsEvaluation()) {
            save(); // before the evaluation, which may be long or fail
            if (!evaluate()) {
                return interrupted();
            }
        }
        save(data.sample().windows().isEmpty());
        if (!samples.after(() -> stopping)) {
            return interrupted();
        }
        writeSummary(end);
        return end;
    }

    private End interrupted() {
        save();
        writeSummary(End.INTERRUPTED);
        return End.INTERRUPTED;
    }

    private boolean needsEvaluation() {
        return state.evaluatedAt != state.step && !data.sample().windows().isEmpty();
    }

    private boolean due(int every) {
        return every > 0 && state.step > 0 && state.step % every == 0;
    }

    private boolean patienceIsExhausted() {
        return config.get(Keys.PATIENCE) > 0 && state.withoutGain >= config.get(Keys.PATIENCE);
    }

    private void next() {
        List<List<TrainingExample>> read = ahead.orElseGet(this::read).get();
        int end = state.position + read.size();
        long seen = read.stream()
                .flatMap(List::stream)
                .mapToLong(example -> example.ids().length)
                .sum();
        setup.events().stepStarted(state.step + 1);
        long began = setup.nanoTime().getAsLong();
        double cpu = Machine.cpuSeconds();
        double rate = plan.rate(state.step);
        Trainer.Started started = stepThatFits(read, rate);
        state.position = end;
        if (state.position == sequences.size()) {
            state.epoch++;
            state.position = 0;
        }
        ahead = state.step + 1 < steps() ? Optional.of(read()) : Optional.empty(); // while the device computes
        Optional<Usage> gpu = device.usage(); // also while it computes
        Trainer.Report report = started.report();
        double took = Math.max(1e-9, (setup.nanoTime().getAsLong() - began) * 1e-9);
        state.trainingSeconds += took;
        state.tokens += seen;
        state.lossTokens += report.targets();
        state.step++;
        plan.finished(state.step, elapsedBefore + since(begun));
        double within = (double) state.position / sequences.size();
        RunEvents.Step event = new RunEvents.Step(
                state.step,
                steps(),
                state.epoch + within,
                state.tokens,
                state.lossTokens,
                report.loss(),
                rate,
                report.gradientNorm(),
                seen / took,
                trainable.weightBytes() + trainer.reservedBytes() + device.workspaceBytes(),
                Machine.residentBytes(),
                gpu.orElseGet(() -> cores(cpu, took)),
                report.moved());
        metrics.step(event);
        setup.events().step(event);
        checkFinite(report);
    }

    /** Share of all cores that this process used during {@code seconds}. CPU time is counted in steps of 10 ms. */
    private static Usage cores(double before, double seconds) {
        double cores = Runtime.getRuntime().availableProcessors();
        return before < 0
                ? Usage.UNKNOWN
                : new Usage(Math.min(1, (Machine.cpuSeconds() - before) / seconds / cores), -1);
    }

    /** Skips one step that is not finite; fails after several in a row. */
    private void checkFinite(Trainer.Report report) {
        state.notFinite = report.moved() || report.scaledDown() ? 0 : state.notFinite + 1;
        if (!report.moved()) {
            setup.events()
                    .note("step " + state.step + " skipped: loss " + report.loss() + ", gradient norm "
                            + report.gradientNorm()
                            + (report.scaledDown()
                                    ? "; the loss scale is "
                                            + trainer.lossScale().value() + " now"
                                    : ""));
        }
        if (state.notFinite >= NOT_FINITE) {
            Path good = save();
            throw new TrainException(
                    "step " + state.step + ": " + state.notFinite + " steps in a row were not finite; the state "
                            + "before them is in " + good + "; try a lower learning rate or a higher precision");
        }
    }

    /** Loads the sequences of the next step. */
    private Supplier<List<List<TrainingExample>>> read() {
        if (plannedEpoch != state.epoch) {
            sequences = data.train().epoch(state.epoch);
            plannedEpoch = state.epoch;
        }
        int end = Math.min(sequences.size(), state.position + perStep());
        return loader.read(sequences.subList(state.position, end), state.epoch);
    }

    private Trainer.Started stepThatFits(List<List<TrainingExample>> read, double rate) {
        while (true) {
            List<List<TrainingExample>> batches = new ArrayList<>();
            for (int from = 0; from < read.size(); from += state.sequencesAtATime) {
                batches.add(read.subList(from, Math.min(read.size(), from + state.sequencesAtATime)).stream()
                        .flatMap(List::stream)
                        .toList());
            }
            try {
                return trainer.start(batches, rate, state.step);
            } catch (MemoryException full) {
                if (state.sequencesAtATime == 1) {
                    throw new TrainException(
                            full.getMessage() + "; one sequence of " + config.get(Keys.CONTEXT)
                                    + " tokens does not fit: " + memory.advice(trainer),
                            full);
                }
                state.sequencesAtATime = (state.sequencesAtATime + 1) / 2;
                setup.events()
                        .note("out of memory (" + full.getMessage() + "): continuing with " + state.sequencesAtATime
                                + " sequences per micro-batch and more gradient accumulation");
            }
        }
    }

    /** Evaluates on the validation sample. Returns false if stopped; the run's results do not change then. */
    private boolean evaluate() {
        long began = setup.nanoTime().getAsLong();
        OptionalDouble found = validation.loss(
                trainer,
                state.sequencesAtATime,
                () -> stopping,
                done -> setup.events()
                        .evaluating(state.step, done, data.sample().tokens(), since(began)));
        state.evaluationSeconds += since(began);
        if (found.isEmpty()) {
            return false;
        }
        double loss = found.getAsDouble();
        state.evaluatedAt = state.step;
        state.lastEvaluation = loss;
        boolean best = loss < state.bestLoss - config.get(Keys.MIN_DELTA);
        state.withoutGain = best ? 0 : state.withoutGain + 1;
        if (best) {
            state.bestLoss = loss;
            state.bestStep = state.step;
        }
        metrics.evaluated(state.step, loss, best);
        setup.events().evaluated(state.step, loss, best);
        if (best) {
            save(true);
        }
        return true;
    }

    private double since(long began) {
        return (setup.nanoTime().getAsLong() - began) * 1e-9;
    }

    private Path save() {
        return save(false);
    }

    private Path save(boolean best) {
        long bytes = trainer.stateBytes()
                + trainable.parameters().values().stream()
                        .mapToLong(Tensor::bytes)
                        .sum();
        state.elapsedSeconds = elapsedBefore + since(begun);
        Path checkpoint = checkpoints.has(state.step)
                ? checkpoints.amend(state.step, folder -> saved.write(folder, state))
                : checkpoints.save(state.step, bytes, this::write);
        if (best) {
            checkpoints.markBest(checkpoint);
        }
        checkpoints.prune();
        return checkpoint;
    }

    private void write(Path folder) {
        setup.events().note("saving step " + state.step);
        trainable.save(folder);
        saved.writeOptimizer(folder);
        saved.write(folder, state);
    }

    private void writeSummary(End end) {
        state.elapsedSeconds = elapsedBefore + since(begun);
        ObjectNode summary = RunSummary.of(run, end, config, state, data, device.name());
        Checkpoints.writeAtomically(run.resolve("summary.json"), Jackson.indented(summary) + "\n");
        Checkpoints.writeAtomically(run.resolve("report.html"), ReportPage.render(run, summary, nextCommands(end)));
    }

    @Override
    public void close() {
        metrics.close();
        trainer.close();
        loader.close();
        data.close();
        trainable.close();
        files.close();
    }
}
