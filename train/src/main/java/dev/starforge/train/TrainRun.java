package dev.starforge.train;

import dev.starforge.data.Tokenizer;
import dev.starforge.model.ModelFiles;
import dev.starforge.model.Quantization;
import dev.starforge.model.file.SafetensorsWriter;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.model.lora.LoraSettings;
import dev.starforge.tensor.NullOps;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.MemoryException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
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
    private static final String CONFIG = "config.yaml";
    private static final String ASIDE = ".replaced";

    /** What of a run's folder is the run's. */
    private static final String OWN =
            "checkpoint-\\d+|latest|best|base|metrics\\.jsonl|summary\\.json|report\\.html|samples\\.json|config\\.yaml";

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

    private final Setup setup;
    private final RunConfig config;
    private final Path run;
    private final Device device;
    private final ModelFiles files;
    private final Subject subject;
    private final Sources sources;
    private final Corpus corpus;
    private final Corpus validation;
    private final Trainer trainer;
    private final Checkpoints checkpoints;
    private final Schedule schedule;
    private final long steps;
    private final Samples samples;
    private Metrics metrics;
    private volatile boolean stopping;

    private long step;
    private int epoch;
    private int position;
    private List<List<Integer>> sequences = List.of();
    private int plannedEpoch = -1;
    private long tokens;
    private int micro;
    private double bestLoss = Double.POSITIVE_INFINITY;
    private long bestStep;
    private int withoutGain;
    private int notFinite;
    private long evaluatedAt = -1;
    private double lastEvaluation = Double.NaN;
    private double seconds;

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

    /**
     * Makes sure that the output folder may be written to. An old run that is to be overwritten is set aside until the new
     * one has begun; {@link #settle} puts it back where that did not happen.
     */
    public static void claim(RunConfig config, boolean resume) {
        Path run = Path.of(config.get(Keys.OUTPUT));
        settle(config);
        try {
            boolean used = Files.exists(run.resolve(Metrics.FILE))
                    || !new Checkpoints(run, Checkpoints.REAL, 1).all().isEmpty();
            if (used && !resume) {
                if (!config.get(Keys.OVERWRITE)) {
                    throw config.wrong(
                            Keys.OUTPUT, "there is a run already; go on with --resume, or set output.overwrite");
                }
                Path aside = Files.createDirectories(run.resolve(ASIDE));
                for (Path path : metricsFirst(run)) {
                    if (path.getFileName().toString().matches(OWN)) {
                        Files.move(path, aside.resolve(path.getFileName()), StandardCopyOption.ATOMIC_MOVE);
                    }
                }
            }
            Files.createDirectories(run);
        } catch (IOException failure) {
            throw new TrainException(run + ": cannot be written: " + failure, failure);
        }
    }

    /**
     * Removes an old run that was set aside when the new one has begun, and puts it back when it has not. A run has begun
     * when it has metrics; so these are moved first when a run is set aside and last when it is put back, and a process that
     * is killed in between loses nothing.
     */
    public static void settle(RunConfig config) {
        Path run = Path.of(config.get(Keys.OUTPUT));
        Path aside = run.resolve(ASIDE);
        try {
            if (Files.isDirectory(aside) && !Files.exists(run.resolve(Metrics.FILE))) {
                for (Path path : metricsFirst(aside).reversed()) {
                    Path back = run.resolve(path.getFileName());
                    Checkpoints.remove(back);
                    Files.move(path, back, StandardCopyOption.ATOMIC_MOVE);
                }
            }
            Checkpoints.remove(aside);
        } catch (IOException failure) {
            throw new TrainException(aside + ": cannot be put back: " + failure, failure);
        }
    }

    private static List<Path> metricsFirst(Path folder) throws IOException {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.sorted(Comparator.comparing(
                            path -> !path.getFileName().toString().equals(Metrics.FILE)))
                    .toList();
        }
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
            if (config.get(Keys.CONTEXT) > subject.model().facts().context()) {
                throw config.wrong(
                        Keys.CONTEXT,
                        "the model was made for " + subject.model().facts().context() + " positions");
            }
            sources = Sources.open(config, setup.model(), vocabulary, setup.tokenizer());
            opened.add(sources);
            corpus = new Corpus(sources.train(), vocabulary, sources.weights(), order());
            validation = new Corpus(
                    sources.validation(), vocabulary, document -> 1, Corpus.Settings.plain(config.get(Keys.CONTEXT)));
            if (corpus.windows() == 0) {
                throw Sources.empty(config, Keys.TRAIN);
            }
            trainer = trainer();
            opened.add(trainer);
            steps = countSteps();
            schedule = Schedule.of(config, steps);
            micro = config.get(Keys.BATCH);
            checkpoints = new Checkpoints(run, setup.disk(), config.get(Keys.SAVE_LIMIT));
            checkpoints.clean();
            samples = new Samples(run, config, setup, subject.model(), sources);
            Optional<Path> from = setup.resume() ? checkpoints.newest(setup.events()::note) : Optional.empty();
            if (setup.resume() && from.isEmpty() && !checkpoints.all().isEmpty()) {
                throw new TrainException(run + ": cannot go on: none of its checkpoints is complete; set "
                        + "output.overwrite, without --resume, to begin anew");
            }
            from.ifPresent(this::restore);
            Checkpoints.writeWhole(run.resolve(CONFIG), config.yaml());
            metrics = new Metrics(
                    run,
                    from.map(path -> Metrics.lines(path.resolve(Metrics.FILE))).orElse(List.of()));
            opened.add(metrics);
            settle(config);
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

    private Corpus.Settings order() {
        Optional<FimTokens> fim =
                config.get(Keys.FIM_RATE) > 0 ? setup.tokenizer().flatMap(FimTokens::of) : Optional.empty();
        if (config.get(Keys.FIM_RATE) > 0 && fim.isEmpty()) {
            setup.events().note("no document is turned for filling in: the tokenizer has no tokens for it");
        }
        return new Corpus.Settings(
                config.get(Keys.CONTEXT),
                config.get(Keys.PACKING),
                config.get(Keys.SEED),
                fim,
                config.get(Keys.FIM_RATE),
                config.get(Keys.SPM_RATE),
                config.get(Keys.CURRICULUM).equals("short_first"));
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
            count += (corpus.epoch(e).size() + perStep() - 1) / perStep();
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
        return step;
    }

    /** Where it is, the model it trains and how long an epoch is, in words. */
    public String describe() {
        long trained = subject.parameters().values().stream()
                .mapToLong(parameter -> parameter.shape().size())
                .sum();
        return files.architecture() + ", " + trained + " parameters trained; " + corpus.tokens() + " tokens in "
                + corpus.windows() + " pieces; " + steps + " steps of " + perStep() + " sequences"
                + (step > 0 ? "; goes on from step " + step : "");
    }

    public End run() {
        if (step == 0) {
            samples.before();
        }
        End end = End.FINISHED;
        while (step < steps) {
            if (due(config.get(Keys.EVAL_STEPS)) && evaluatedAt != step && validation.windows() > 0) {
                evaluate();
            }
            if (impatient()) {
                end = End.STOPPED_EARLY;
                break;
            }
            if (due(config.get(Keys.SAVE_STEPS))) {
                save();
            }
            if (stopping) {
                save();
                writeSummary(End.INTERRUPTED);
                return End.INTERRUPTED;
            }
            next();
        }
        if (validation.windows() > 0 && evaluatedAt != step) {
            evaluate();
        }
        save(validation.windows() == 0);
        samples.after();
        writeSummary(end);
        return end;
    }

    private boolean due(int every) {
        return every > 0 && step > 0 && step % every == 0;
    }

    private boolean impatient() {
        return config.get(Keys.PATIENCE) > 0 && withoutGain >= config.get(Keys.PATIENCE);
    }

    private void next() {
        if (plannedEpoch != epoch) {
            sequences = corpus.epoch(epoch);
            plannedEpoch = epoch;
        }
        int end = Math.min(sequences.size(), position + perStep());
        List<List<Example>> read = new ArrayList<>();
        long seen = 0;
        for (List<Integer> sequence : sequences.subList(position, end)) {
            read.add(corpus.read(sequence, epoch));
            seen += read.getLast().stream()
                    .mapToLong(example -> example.ids().length)
                    .sum();
        }
        long began = setup.nanoTime().getAsLong();
        double cpu = Machine.cpuSeconds();
        double rate = schedule.rate(step);
        Trainer.Report report = attempt(read, rate);
        double took = Math.max(1e-9, (setup.nanoTime().getAsLong() - began) * 1e-9);
        seconds += took;
        tokens += seen;
        position = end;
        if (position == sequences.size()) {
            epoch++;
            position = 0;
        }
        step++;
        double within = plannedEpoch == epoch ? (double) position / sequences.size() : 0;
        double used = cpu < 0
                ? -1
                : (Machine.cpuSeconds() - cpu) / took / Runtime.getRuntime().availableProcessors();
        RunEvents.Step told = new RunEvents.Step(
                step,
                steps,
                epoch + within,
                tokens,
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
        notFinite = report.moved() || report.scaledDown() ? 0 : notFinite + 1;
        if (!report.moved()) {
            setup.events()
                    .note("step " + step + " skipped: loss " + report.loss() + ", gradient norm "
                            + report.gradientNorm()
                            + (report.scaledDown()
                                    ? "; the loss is scaled by "
                                            + trainer.lossScale().value() + " from here on"
                                    : ""));
        }
        if (notFinite >= NOT_FINITE) {
            Path good = save();
            throw new TrainException("step " + step + ": " + notFinite + " steps in a row were not finite; the state "
                    + "before them is in " + good + "; a lower learning rate or a higher precision may help");
        }
    }

    private Trainer.Report attempt(List<List<Example>> read, double rate) {
        while (true) {
            List<List<Example>> batches = new ArrayList<>();
            for (int from = 0; from < read.size(); from += micro) {
                batches.add(read.subList(from, Math.min(read.size(), from + micro)).stream()
                        .flatMap(List::stream)
                        .toList());
            }
            try {
                return trainer.step(batches, rate, step);
            } catch (MemoryException full) {
                if (micro == 1) {
                    throw new TrainException(
                            full.getMessage() + "; one sequence of " + config.get(Keys.CONTEXT)
                                    + " tokens does not fit: " + whatFits(),
                            full);
                }
                micro = (micro + 1) / 2;
                setup.events()
                        .note("out of memory (" + full.getMessage() + "): going on with " + micro
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

    private void evaluate() {
        double sum = 0;
        long targets = 0;
        List<List<Integer>> all = validation.epoch(0);
        for (int from = 0; from < all.size(); from += micro) {
            List<Example> batch = new ArrayList<>();
            for (List<Integer> sequence : all.subList(from, Math.min(all.size(), from + micro))) {
                batch.addAll(validation.read(sequence, 0));
            }
            long count = batch.stream().mapToLong(Example::targets).sum();
            sum += trainer.loss(batch) * count;
            targets += count;
        }
        double loss = sum / targets;
        evaluatedAt = step;
        lastEvaluation = loss;
        boolean best = loss < bestLoss - config.get(Keys.MIN_DELTA);
        withoutGain = best ? 0 : withoutGain + 1;
        if (best) {
            bestLoss = loss;
            bestStep = step;
        }
        metrics.evaluated(step, loss, best);
        setup.events().evaluated(step, loss, best);
        if (best) {
            save(true);
        }
    }

    private Path save() {
        return save(false);
    }

    private Path save(boolean best) {
        long bytes = trainer.stateBytes()
                + subject.parameters().values().stream()
                        .mapToLong(Tensor::bytes)
                        .sum();
        Path checkpoint = checkpoints.save(step, bytes, this::write);
        if (best) {
            checkpoints.markBest(checkpoint);
        }
        checkpoints.prune();
        return checkpoint;
    }

    private void write(Path folder) {
        setup.events().note("saving step " + step);
        subject.save(folder);
        List<SafetensorsWriter.Entry> entries = new ArrayList<>();
        trainer.state().forEach((name, tensor) -> entries.add(SafetensorsWriter.Entry.of(name, tensor, device)));
        SafetensorsWriter.write(folder.resolve(OPTIMIZER), entries);
        ObjectNode state = JSON.createObjectNode();
        state.put("step", step);
        state.put("epoch", epoch);
        state.put("position", position);
        state.put("tokens", tokens);
        state.put("updates", trainer.updates());
        state.put("sequences_at_a_time", micro);
        state.put("best_loss", bestLoss);
        state.put("best_step", bestStep);
        state.put("evaluations_without_gain", withoutGain);
        state.put("steps_not_finite", notFinite);
        state.put("loss_scale", trainer.lossScale().value());
        state.put("loss_scale_good_steps", trainer.lossScale().goodSteps());
        state.put("evaluated_at", evaluatedAt);
        state.put("last_evaluation", lastEvaluation);
        state.put("seconds", seconds);
        state.put("device", device.name());
        ObjectNode random = state.putObject("random");
        random.put("generator", "philox4x32-10, keyed by seed, step, sample, site and element");
        random.put("seed", config.get(Keys.SEED));
        ObjectNode scheduler = state.putObject("scheduler");
        scheduler.put("shape", schedule.shape().name());
        scheduler.put("steps", schedule.steps());
        scheduler.put("warmup", schedule.warmup());
        ObjectNode data = state.putObject("data_sha256");
        sources.hashes().forEach(data::put);
        Checkpoints.writeWhole(folder.resolve(STATE), JSON.writeValueAsString(state) + "\n");
        Checkpoints.writeWhole(folder.resolve(CONFIG), config.yaml());
        try {
            Files.copy(run.resolve(Metrics.FILE), folder.resolve(Metrics.FILE));
        } catch (IOException failure) {
            throw new TrainException(folder + ": cannot be written: " + failure, failure);
        }
    }

    private void restore(Path checkpoint) {
        RunConfig before = RunConfig.read(checkpoint.resolve(CONFIG));
        for (Key<?> key : Keys.ALL) {
            if (!FREE.contains(key) && !before.get(key).equals(config.get(key))) {
                throw config.wrong(
                        key,
                        "the run in " + run + " was begun with " + before.get(key) + "; it cannot go on with another");
            }
        }
        JsonNode state = JSON.readTree(checkpoint.resolve(STATE));
        for (Map.Entry<String, String> hash : sources.hashes().entrySet()) {
            if (!state.path("data_sha256").path(hash.getKey()).asString("").equals(hash.getValue())) {
                throw new TrainException(checkpoint + ": was trained on other data: " + hash.getKey() + " has changed");
            }
        }
        if (!state.path("device").asString("").equals(device.name())) {
            setup.events()
                    .note("the run was begun on " + state.path("device").asString("") + " and goes on on "
                            + device.name() + ": losses will agree, but not bit for bit");
        }
        subject.restore(checkpoint);
        Subject.restore(checkpoint.resolve(OPTIMIZER), "", trainer.state(), device);
        trainer.restore(state.path("updates").intValue());
        trainer.lossScale()
                .restore(
                        state.path("loss_scale").doubleValue(1),
                        state.path("loss_scale_good_steps").intValue(0));
        step = state.path("step").longValue();
        epoch = state.path("epoch").intValue();
        position = state.path("position").intValue();
        tokens = state.path("tokens").longValue();
        micro = state.path("sequences_at_a_time").intValue();
        bestLoss = number(state.path("best_loss"));
        bestStep = state.path("best_step").longValue();
        withoutGain = state.path("evaluations_without_gain").intValue();
        notFinite = state.path("steps_not_finite").intValue();
        evaluatedAt = state.path("evaluated_at").longValue();
        lastEvaluation = number(state.path("last_evaluation"));
        seconds = state.path("seconds").doubleValue();
    }

    /** Jackson writes numbers that JSON has not as text. */
    private static double number(JsonNode node) {
        return node.isNumber() ? node.doubleValue() : Double.parseDouble(node.asString("NaN"));
    }

    private void writeSummary(End end) {
        ObjectNode summary = Summary.of(run, end, config, seconds, bestLoss, bestStep, lastEvaluation, device.name());
        Checkpoints.writeWhole(run.resolve("summary.json"), JSON.writeValueAsString(summary) + "\n");
        Checkpoints.writeWhole(run.resolve("report.html"), ReportPage.render(run, summary));
    }

    @Override
    public void close() {
        metrics.close();
        trainer.close();
        sources.close();
        subject.close();
        files.close();
    }
}
