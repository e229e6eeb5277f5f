package dev.starforge.train;

import dev.starforge.data.Tokenizer;
import dev.starforge.data.config.Key;
import dev.starforge.model.LoraAdapter;
import dev.starforge.model.LoraSettings;
import dev.starforge.model.ModelFiles;
import dev.starforge.model.Quantization;
import dev.starforge.model.SafetensorsWriter;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.Fallback;
import dev.starforge.tensor.MemoryException;
import dev.starforge.tensor.NullOps;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Tensor;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * A training run from the first step to the last, or from a checkpoint on. Everything it does is a function of the settings,
 * the data and the step, so a run that goes on gives the losses of one that was never interrupted, bit for bit.
 *
 * <p>A step is a number of sequences; how many of them are computed at a time is a matter of memory, and halves when there
 * is too little. {@link #stop} may come from another thread; the rest is serial.
 */
public final class TrainRun implements AutoCloseable {
    private static final JsonMapper JSON =
            JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();
    static final String STATE = "state.json";
    private static final String OPTIMIZER = "optimizer.safetensors";
    private static final int NOT_FINITE = 3;
    private static final double USABLE = 0.9;

    /** What may differ between a run and the one that goes on from it. */
    private static final List<Key<?>> FREE = List.of(
            Keys.OUTPUT,
            Keys.OVERWRITE,
            Keys.SAVE_STEPS,
            Keys.SAVE_LIMIT,
            Keys.LOGGING_STEPS,
            Keys.THREADS,
            Keys.SAMPLES,
            Keys.PROMPTS,
            Keys.PROMPT_LANGUAGE,
            Keys.PROMPT_TOKENS,
            Keys.FORCE,
            Keys.INDEX,
            Keys.MEMORY_LIMIT);

    /** What may be raised, so that a run becomes longer. */
    private static final List<Key<Integer>> LENGTH = List.of(Keys.EPOCHS, Keys.MAX_STEPS);

    private final Setup setup;
    private final RunConfig config;
    private final Path run;
    private final Device device;
    private final ModelFiles files;
    private final Subject subject;
    private final RunData data;
    private final Validation validation;
    private final Trainer trainer;
    private final Checkpoints checkpoints;
    private final Schedule schedule;
    private final long steps;
    private final Samples samples;
    private Metrics metrics;
    private volatile boolean stopping;

    private final RunState state = new RunState();
    private List<List<Integer>> sequences = List.of();
    private int plannedEpoch = -1;
    private long begun;
    private double elapsedBefore;

    /**
     * What a run is made of.
     *
     * @param config the effective settings
     * @param model a folder or a file
     * @param memoryBytes what may be planned with; 0 when unknown
     * @param resume whether to go on from the newest checkpoint, where there is one
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
            RunEvents events) {}

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
            subject = load();
            opened.add(subject);
            int vocabulary = subject.model().facts().vocabulary();
            Preflight.requireFit(config, subject.model().facts());
            data = RunData.open(config, setup.model(), vocabulary, setup.tokenizer());
            opened.add(data);
            validation = new Validation(data.validation(), data.sample());
            trainer = trainer();
            opened.add(trainer);
            steps = countSteps();
            schedule = Schedule.of(config, steps);
            state.sequencesAtATime = config.get(Keys.BATCH);
            checkpoints = new Checkpoints(run, setup.disk(), config.get(Keys.SAVE_LIMIT));
            checkpoints.clean();
            samples = new Samples(run, config, setup, subject.model(), data.sources());
            Optional<Path> from = setup.resume() ? checkpoints.newest(setup.events()::note) : Optional.empty();
            if (setup.resume() && from.isEmpty() && !checkpoints.all().isEmpty()) {
                throw new TrainException(run + ": cannot go on: none of its checkpoints is complete; set "
                        + "output.overwrite, without --resume, to begin anew");
            }
            from.ifPresent(this::restore);
            tellData(from.isPresent());
            Checkpoints.writeWhole(run.resolve(RunFolder.CONFIG), config.yaml());
            metrics = new Metrics(
                    run,
                    from.map(path -> Metrics.lines(path.resolve(Metrics.FILE))).orElse(List.of()));
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

    private Subject load() {
        if (!config.get(Keys.LORA)) {
            return Subject.Whole.load(files, setup.model(), device);
        }
        Subject.Adapted adapted = Subject.Adapted.load(
                files,
                config.get(Keys.MODEL),
                config.quantization(),
                lora(config, files.architecture()),
                config.get(Keys.SEED),
                device,
                setup.precision());
        if (!config.get(Keys.ADAPTER).isEmpty()) {
            Path from = Checkpoints.resolve(Path.of(config.get(Keys.ADAPTER)));
            adapted.restore(from);
            Quantization before = LoraAdapter.trainedOn(from);
            if (!before.equals(adapted.quantization())) {
                setup.events()
                        .note("the adapter was trained on weights quantized to " + before + " and goes on on "
                                + adapted.quantization());
            }
        }
        return adapted;
    }

    /** The adapter that the settings ask for. */
    static LoraSettings lora(RunConfig config, String architecture) {
        List<String> targets = config.get(Keys.TARGETS);
        boolean automatic = targets.equals(List.of("auto"));
        return new LoraSettings(
                config.get(Keys.RANK),
                config.get(Keys.ALPHA),
                config.get(Keys.DROPOUT),
                automatic ? LoraSettings.automatic(architecture) : targets,
                !automatic,
                config.get(Keys.RSLORA),
                config.get(Keys.DORA));
    }

    /** What is read, what is left out and what is not done, before the first step. */
    private void tellData(boolean resumed) {
        if (setup.resume() && !resumed) {
            setup.events().note("no checkpoint was written yet: the run begins anew");
        }
        if (config.get(Keys.FIM_RATE) > 0
                && setup.tokenizer().flatMap(FimTokens::of).isEmpty()) {
            setup.events().note("no document is turned for filling in: the tokenizer has no tokens for it");
        }
        setup.events().data("train", data.train().facts());
        if (data.sources().validation().count() > 0) {
            setup.events().data("validation", data.validation().facts());
        }
        if (!data.sample().windows().isEmpty()) {
            setup.events().note("evaluations are on " + data.sample().describe());
        }
    }

    static Trainer.Settings settings(RunConfig config, boolean checkpointing) {
        double maxNorm = config.get(Keys.MAX_NORM);
        return new Trainer.Settings(
                config.get(Keys.OPTIMIZER).equals("adamw_8bit"),
                config.get(Keys.MIXED).equals("fp16"),
                config.get(Keys.BETAS).get(0),
                config.get(Keys.BETAS).get(1),
                config.get(Keys.EPS),
                config.get(Keys.DECAY),
                maxNorm == 0 ? Double.POSITIVE_INFINITY : maxNorm,
                checkpointing,
                config.get(Keys.LORA) ? config.get(Keys.DROPOUT) : 0,
                config.get(Keys.NEFTUNE),
                config.get(Keys.SEED));
    }

    /** With checkpointing as asked; {@code auto} is by the plan, without if that fits. */
    private Trainer trainer() {
        String asked = config.get(Keys.CHECKPOINTING);
        Trainer trainer = new Trainer(
                subject.model(),
                subject.parameters(),
                device,
                setup.precision(),
                setup.fallback(),
                settings(config, !asked.equals("false")));
        if (!asked.equals("auto")) {
            return trainer;
        }
        NullOps.Plan plan = trainer.plan(full(config.get(Keys.BATCH), config.get(Keys.CONTEXT)), false);
        long needed = plan.totalBytes() + trainer.reservedBytes() + weightBytes();
        boolean fits = setup.memoryBytes() == 0 || needed <= USABLE * setup.memoryBytes();
        setup.events()
                .note("gradient checkpointing is " + (fits ? "off" : "on") + ": without it a step needs "
                        + mebibytes(needed)
                        + (setup.memoryBytes() == 0 ? "" : " of " + mebibytes(setup.memoryBytes())));
        if (!fits) {
            return trainer;
        }
        trainer.close();
        return new Trainer(
                subject.model(),
                subject.parameters(),
                device,
                setup.precision(),
                setup.fallback(),
                settings(config, false));
    }

    private static String mebibytes(long bytes) {
        return (bytes >> 20) + " MiB";
    }

    private long weightBytes() {
        return switch (subject) {
            case Subject.Adapted adapted -> adapted.scope().reservedBytes();
            case Subject.Whole whole -> whole.scope().reservedBytes();
        };
    }

    /** Sequences of the whole context, as a plan needs them. */
    static List<Example> full(int sequences, int context) {
        return Stream.generate(() -> new Example(new int[context], new int[context]))
                .limit(sequences)
                .toList();
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

    /** Asks the run to end after the present step. */
    public void stop() {
        stopping = true;
    }

    public long steps() {
        return steps;
    }

    /** How many steps are done. */
    public long step() {
        return state.step;
    }

    /** Where it is, the model it trains and how long an epoch is, in words. */
    public String describe() {
        long trained = subject.parameters().values().stream()
                .mapToLong(parameter -> parameter.shape().size())
                .sum();
        return String.format(
                Locale.ROOT,
                "%s, %,d parameters trained; %,d tokens count in the loss of an epoch; %,d steps of %d sequences%s",
                files.architecture(),
                trained,
                data.train().facts().lossTokens(),
                steps,
                perStep(),
                state.step > 0 ? "; goes on from step " + state.step : "");
    }

    /** Whether an adapter is trained, and not the model itself. */
    public boolean hasAdapter() {
        return config.get(Keys.LORA);
    }

    /** The split to evaluate the result on: the test split where there is one. */
    public Optional<String> heldOut() {
        return data.sources().test().count() > 0
                ? Optional.of("test")
                : data.sources().validation().count() > 0 ? Optional.of("validation") : Optional.empty();
    }

    /** What to do with a run that is resumed after its last step; empty while there are steps to do. */
    public String whenFinished() {
        if (state.step < steps) {
            return "";
        }
        Key<Integer> length = config.get(Keys.MAX_STEPS) > 0 ? Keys.MAX_STEPS : Keys.EPOCHS;
        return "the run has done all of its " + steps + " steps; to go on, raise " + length.path() + " (now "
                + config.get(length) + ") with --resume, or begin a new run with "
                + (hasAdapter() ? "model.adapter" : "model.pretrained_model") + " set to "
                + (hasAdapter() ? run : run.resolve("latest"));
    }

    public End run() {
        if (state.step == 0 && !samples.before(() -> stopping)) {
            return interrupted();
        }
        End end = End.FINISHED;
        while (state.step < steps) {
            if (due(config.get(Keys.EVAL_STEPS)) && isToEvaluate() && !evaluate()) {
                return interrupted();
            }
            if (impatient()) {
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
        if (isToEvaluate()) {
            save(); // an evaluation takes its time, and must not be able to cost the run
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

    private boolean isToEvaluate() {
        return state.evaluatedAt != state.step && !data.sample().windows().isEmpty();
    }

    private boolean due(int every) {
        return every > 0 && state.step > 0 && state.step % every == 0;
    }

    private boolean impatient() {
        return config.get(Keys.PATIENCE) > 0 && state.withoutGain >= config.get(Keys.PATIENCE);
    }

    private void next() {
        if (plannedEpoch != state.epoch) {
            sequences = data.train().epoch(state.epoch);
            plannedEpoch = state.epoch;
        }
        int end = Math.min(sequences.size(), state.position + perStep());
        List<List<Example>> read = new ArrayList<>();
        long seen = 0;
        for (List<Integer> sequence : sequences.subList(state.position, end)) {
            read.add(data.train().read(sequence, state.epoch));
            seen += read.getLast().stream()
                    .mapToLong(example -> example.ids().length)
                    .sum();
        }
        long began = setup.nanoTime().getAsLong();
        double cpu = Machine.cpuSeconds();
        double rate = schedule.rate(state.step);
        Trainer.Report report = attempt(read, rate);
        double took = Math.max(1e-9, (setup.nanoTime().getAsLong() - began) * 1e-9);
        state.trainingSeconds += took;
        state.tokens += seen;
        state.lossTokens += report.targets();
        state.position = end;
        if (state.position == sequences.size()) {
            state.epoch++;
            state.position = 0;
        }
        state.step++;
        double within = plannedEpoch == state.epoch ? (double) state.position / sequences.size() : 0;
        double used = cpu < 0
                ? -1
                : (Machine.cpuSeconds() - cpu) / took / Runtime.getRuntime().availableProcessors();
        RunEvents.Step told = new RunEvents.Step(
                state.step,
                steps,
                state.epoch + within,
                state.tokens,
                state.lossTokens,
                report.loss(),
                rate,
                report.gradientNorm(),
                seen / took,
                weightBytes() + trainer.reservedBytes() + device.workspaceBytes(),
                Machine.residentBytes(),
                used,
                report.moved());
        metrics.step(told);
        setup.events().step(told);
        watch(report);
    }

    /** One bad step is skipped; several in a row mean that there is no way on from here. */
    private void watch(Trainer.Report report) {
        state.notFinite = report.moved() || report.scaledDown() ? 0 : state.notFinite + 1;
        if (!report.moved()) {
            setup.events()
                    .note("step " + state.step + " skipped: loss " + report.loss() + ", gradient norm "
                            + report.gradientNorm()
                            + (report.scaledDown()
                                    ? "; the loss is scaled by "
                                            + trainer.lossScale().value() + " from here on"
                                    : ""));
        }
        if (state.notFinite >= NOT_FINITE) {
            Path good = save();
            throw new TrainException(
                    "step " + state.step + ": " + state.notFinite + " steps in a row were not finite; the state "
                            + "before them is in " + good + "; a lower learning rate or a higher precision may help");
        }
    }

    private Trainer.Report attempt(List<List<Example>> read, double rate) {
        while (true) {
            List<List<Example>> batches = new ArrayList<>();
            for (int from = 0; from < read.size(); from += state.sequencesAtATime) {
                batches.add(read.subList(from, Math.min(read.size(), from + state.sequencesAtATime)).stream()
                        .flatMap(List::stream)
                        .toList());
            }
            try {
                return trainer.step(batches, rate, state.step);
            } catch (MemoryException full) {
                if (state.sequencesAtATime == 1) {
                    throw new TrainException(
                            full.getMessage() + "; one sequence of " + config.get(Keys.CONTEXT)
                                    + " tokens does not fit: " + whatFits(),
                            full);
                }
                state.sequencesAtATime = (state.sequencesAtATime + 1) / 2;
                setup.events()
                        .note("out of memory (" + full.getMessage() + "): going on with " + state.sequencesAtATime
                                + " sequences at a time, and accordingly more of them for a step");
            }
        }
    }

    private String whatFits() {
        if (setup.memoryBytes() == 0) {
            return "set model.context_window lower, or optimization.gradient_checkpointing: true";
        }
        long left = setup.memoryBytes() - weightBytes() - trainer.stateBytes();
        for (int context = config.get(Keys.CONTEXT) / 2; context >= 16; context /= 2) {
            long needed = trainer.plan(full(1, context), true).totalBytes();
            if (needed <= left) {
                return "model.context_window: " + context + " with gradient_checkpointing: true would, with "
                        + mebibytes(needed) + " beside the weights";
            }
        }
        return "the weights and the optimizer's state leave " + mebibytes(Math.max(0, left)) + " only";
    }

    /** False when it was stopped, which changes nothing but the time that is gone. */
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
                + subject.parameters().values().stream()
                        .mapToLong(Tensor::bytes)
                        .sum();
        state.elapsedSeconds = elapsedBefore + since(begun);
        Path checkpoint = checkpoints.has(state.step)
                ? checkpoints.amend(state.step, this::writeState)
                : checkpoints.save(state.step, bytes, this::write);
        if (best) {
            checkpoints.markBest(checkpoint);
        }
        checkpoints.prune();
        return checkpoint;
    }

    private void write(Path folder) {
        setup.events().note("saving step " + state.step);
        subject.save(folder);
        List<SafetensorsWriter.Entry> entries = new ArrayList<>();
        trainer.state().forEach((name, tensor) -> entries.add(SafetensorsWriter.Entry.of(name, tensor, device)));
        SafetensorsWriter.write(folder.resolve(OPTIMIZER), entries);
        writeState(folder);
    }

    private void writeState(Path folder) {
        ObjectNode root = JSON.createObjectNode();
        state.write(root);
        root.put("updates", trainer.updates());
        root.put("loss_scale", trainer.lossScale().value());
        root.put("loss_scale_good_steps", trainer.lossScale().goodSteps());
        root.put("device", device.name());
        ObjectNode random = root.putObject("random");
        random.put("generator", "philox4x32-10, keyed by seed, step, sample, site and element");
        random.put("seed", config.get(Keys.SEED));
        ObjectNode scheduler = root.putObject("scheduler");
        scheduler.put("shape", schedule.shape().name());
        scheduler.put("steps", schedule.steps());
        scheduler.put("warmup", schedule.warmup());
        ObjectNode hashes = root.putObject("data_sha256");
        data.sources().hashes().forEach(hashes::put);
        Checkpoints.writeWhole(folder.resolve(STATE), JSON.writeValueAsString(root) + "\n");
        Checkpoints.writeWhole(folder.resolve(RunFolder.CONFIG), config.yaml());
        try {
            Files.copy(run.resolve(Metrics.FILE), folder.resolve(Metrics.FILE));
        } catch (IOException failure) {
            throw new TrainException(folder + ": cannot be written: " + failure, failure);
        }
    }

    private void restore(Path checkpoint) {
        RunConfig before = RunConfig.read(checkpoint.resolve(RunFolder.CONFIG));
        JsonNode saved = JSON.readTree(checkpoint.resolve(STATE));
        for (Key<?> key : Keys.ALL) {
            if (!FREE.contains(key) && !LENGTH.contains(key) && !before.get(key).equals(config.get(key))) {
                throw config.wrong(
                        key,
                        "the run in " + run + " was begun with " + before.get(key) + "; it cannot go on with another");
            }
        }
        extend(before, saved.path("scheduler").path("steps").longValue(steps));
        for (Map.Entry<String, String> hash : data.sources().hashes().entrySet()) {
            if (!saved.path("data_sha256").path(hash.getKey()).asString("").equals(hash.getValue())) {
                throw new TrainException(checkpoint + ": was trained on other data: " + hash.getKey() + " has changed");
            }
        }
        if (!saved.path("device").asString("").equals(device.name())) {
            setup.events()
                    .note("the run was begun on " + saved.path("device").asString("") + " and goes on on "
                            + device.name() + ": losses will agree, but not bit for bit");
        }
        subject.restore(checkpoint);
        Subject.restore(checkpoint.resolve(OPTIMIZER), "", trainer.state(), device);
        trainer.restore(saved.path("updates").intValue());
        trainer.lossScale()
                .restore(
                        saved.path("loss_scale").doubleValue(1),
                        saved.path("loss_scale_good_steps").intValue(0));
        state.read(saved);
        elapsedBefore = state.elapsedSeconds;
    }

    /** A run may become longer. From here on it has the rates of the longer schedule, which it did not begin with. */
    private void extend(RunConfig before, long stepsBefore) {
        for (Key<Integer> key : LENGTH) {
            if (!before.get(key).equals(config.get(key)) && steps < stepsBefore) {
                throw config.wrong(
                        key,
                        "the run in " + run + " was begun with " + before.get(key)
                                + "; it can become longer, but not shorter");
            }
        }
        if (steps > stepsBefore) {
            setup.events()
                    .note("the run goes on to step " + steps + " instead of " + stepsBefore
                            + ": from here on the learning rate is that of the longer schedule, so the result is not that "
                            + "of a run that was as long from the beginning");
        }
    }

    private void writeSummary(End end) {
        state.elapsedSeconds = elapsedBefore + since(begun);
        ObjectNode summary = Summary.of(run, end, config, state, data, device.name());
        Checkpoints.writeWhole(run.resolve("summary.json"), JSON.writeValueAsString(summary) + "\n");
        Checkpoints.writeWhole(run.resolve("report.html"), ReportPage.render(run, summary));
    }

    @Override
    public void close() {
        metrics.close();
        trainer.close();
        data.close();
        subject.close();
        files.close();
    }
}
