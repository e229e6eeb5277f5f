package dev.starforge.train.plan;

import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.Quantization;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.load.ModelSpec;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.text.ErrorMessage;
import dev.starforge.text.FileException;
import dev.starforge.text.TokenizerException;
import dev.starforge.text.config.ConfigException;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.KnownModels;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.RunFolder;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.DataFacts;
import dev.starforge.train.corpus.RunData;
import dev.starforge.train.corpus.TrainingExample;
import dev.starforge.train.weights.ScratchModel;
import dev.starforge.train.weights.TrainableModel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * Checks whether a run can start before it writes anything: output folder, model and weights, memory, data, disk.
 * {@code train} stops at the first failure, {@code doctor} shows all findings, so the two always agree.
 */
public final class Preflight {
    /** The checkpoint that is kept and the one being written. */
    private static final int MIN_CHECKPOINTS = 2;

    private static final long SLACK = 64L << 20;

    /** Sequences of the data that steps are measured with. */
    private static final int MEASURED_SEQUENCES = 16;

    private final List<Finding> findings = new ArrayList<>();
    private final List<RuntimeException> failures = new ArrayList<>();
    private final Setup setup;
    private final RunConfig config;
    private final Device device;
    private Optional<Path> model = Optional.empty();
    private Optional<ScratchModel.Draft> draft = Optional.empty();
    private Optional<Tokenizer> tokenizer = Optional.empty();
    private Optional<ModelSpec> blueprint = Optional.empty();
    private Optional<Model.ModelInfo> facts = Optional.empty();
    private Optional<Adaptation> adapted = Optional.empty();
    private Optional<MemoryPlan> plan = Optional.empty();
    private long tokens;
    private long evaluated;
    private List<List<TrainingExample>> sequences = List.of();

    /** The severity of a finding. */
    public enum Level {
        READY,
        WARNING,
        NOT_READY
    }

    /** The result of one check. */
    public record Finding(Level level, String subject, String text) {}

    /** Locates models. */
    public interface Models {
        /** Returns the folder or file of a model name; throws if there is none. */
        Path find(String name);

        Optional<Tokenizer> tokenizer(Path model);
    }

    /**
     * The run to check.
     *
     * @param config the configured settings, before adaptation
     * @param resume whether a run is resumed
     */
    public record Setup(
            RunConfig config,
            MachineFacts machine,
            Device device,
            boolean resume,
            Models models,
            Checkpoints.Disk disk) {}

    private Preflight(Setup setup) {
        this.setup = setup;
        this.config = setup.config();
        this.device = setup.device();
    }

    /** Runs all checks. */
    public static Preflight of(Setup setup) {
        return of(setup, true);
    }

    /** Runs the checks that need no dataset. */
    public static Preflight withoutData(Setup setup) {
        return of(setup, false);
    }

    private static Preflight of(Setup setup, boolean data) {
        Preflight preflight = new Preflight(setup);
        preflight.check("output", preflight::output);
        preflight.check("model", preflight::model);
        preflight.check("memory", preflight::memory);
        if (data) {
            preflight.check("data", preflight::data);
        }
        if (!setup.config().get(Keys.ADAPTER).isEmpty()) {
            preflight.check("adapter", preflight::adapter);
        }
        preflight.check("disk", preflight::disk);
        return preflight;
    }

    public List<Finding> findings() {
        return List.copyOf(findings);
    }

    /** Throws the first failure, if there is one. */
    public void require() {
        if (!failures.isEmpty()) {
            throw failures.getFirst();
        }
    }

    /** Folder or file of the model; empty for a new model that is not written yet. */
    public Optional<Path> modelPath() {
        return model;
    }

    /** The new model, if it is not written yet. */
    public Optional<ScratchModel.Draft> draft() {
        return draft;
    }

    /** The settings adapted to the machine. Requires that no check failed. */
    public Adaptation adaptation() {
        return adapted.orElseThrow();
    }

    /** Planned bytes of device and main memory. Requires that no check failed. */
    public long plannedBytes() {
        return plan.orElseThrow().total();
    }

    /** Number of elements of the model's matrices. Requires that no check failed. */
    public long parameters() {
        return StepTime.weights(blueprint.orElseThrow(), device);
    }

    /** Measures the training throughput by running steps. Requires that no check failed. */
    public double tokensPerSecond(LongSupplier nanoTime) {
        return new StepTime(blueprint.orElseThrow(), adaptation(), device, nanoTime, sequences)
                .rate()
                .tokensPerSecond();
    }

    /** Adds an estimate of the run's duration from measured steps. Skipped if the run does not fit into memory. */
    public void time(LongSupplier nanoTime) {
        if (blueprint.isPresent() && adapted.isPresent() && plan.isPresent()) {
            check(
                    "time",
                    () -> new StepTime(blueprint.get(), adapted.get(), device, nanoTime, sequences)
                            .finding(tokens, evaluated));
        }
    }

    private void check(String subject, Supplier<Finding> look) {
        try {
            findings.add(look.get());
        } catch (ConfigException
                | TrainException
                | ModelException
                | FileException
                | TokenizerException
                | TensorException refused) {
            failures.add(refused);
            findings.add(new Finding(Level.NOT_READY, subject, ErrorMessage.of(refused)));
        }
    }

    private static Finding ready(String subject, String text) {
        return new Finding(Level.READY, subject, text);
    }

    private Finding output() {
        RunFolder.check(config, setup.resume());
        return ready("output", config.get(Keys.OUTPUT) + (setup.resume() ? ": a run to resume" : ""));
    }

    private boolean goesOn() {
        return setup.resume()
                && Files.isRegularFile(Path.of(config.get(Keys.OUTPUT)).resolve(RunFolder.CONFIG));
    }

    private Finding model() {
        Path base = Path.of(config.get(Keys.OUTPUT)).resolve(RunFolder.BASE);
        boolean isNew = config.get(Keys.MODEL).equals(ScratchModel.NAME);
        if (isNew && !(setup.resume() && Files.isDirectory(base))) {
            blueprint = Optional.of(ScratchModel.blueprint(config));
            ScratchModel.Draft made = ScratchModel.draft(config);
            draft = Optional.of(made);
            tokenizer = Optional.of(made.tokenizer());
            blueprint = Optional.of(made.blueprint());
            facts = Optional.of(made.blueprint()
                    .plan(shapes().scope(), Precision.FLOAT32, new ArrayList<>())
                    .info());
            return ready("model", "a new one, " + StepTime.parameters(parameters()) + " parameters");
        }
        blueprint = KnownModels.find(config.get(Keys.MODEL));
        Path path = isNew ? base : setup.models().find(config.get(Keys.MODEL));
        try (ModelFiles files = ModelFiles.open(path)) {
            blueprint = Optional.of(files.spec());
            Model.ModelInfo found = TrainableModel.shapes(files, device);
            files.requireFinite(device);
            tokenizer = setup.models().tokenizer(path);
            model = Optional.of(path);
            facts = Optional.of(found);
            return ready(
                    "model",
                    files.architecture() + " in " + path + ", " + StepTime.parameters(parameters())
                            + " parameters, every weight is finite");
        }
    }

    private NullOps shapes() {
        return new NullOps(device, Precision.FLOAT32, Fallback.QUIET);
    }

    /** Plans memory. A resumed run keeps the settings that were fitted when it started. */
    private Finding memory() {
        RunConfig asked = withinModel();
        adapted = Optional.of(
                goesOn()
                        ? Adaptation.fixed(asked, setup.machine(), blueprint, device)
                        : Adaptation.of(asked, setup.machine(), blueprint, device));
        RunConfig effective = adapted.get().config();
        facts.ifPresent(known -> requireFit(effective, known));
        if (!effective.get(Keys.LORA)) {
            model.ifPresent(TrainableModel.Full::requireFolder);
        }
        if (blueprint.isEmpty()) {
            return new Finding(Level.WARNING, "memory", "not planned: the model is unknown");
        }
        MemoryPlan needed = MemoryPlan.of(
                blueprint.get(), effective, effective.get(Keys.BATCH), effective.get(Keys.CONTEXT), device);
        plan = Optional.of(needed);
        return ready(
                "memory",
                String.format(
                        Locale.ROOT,
                        "planned %.2f GiB of %.2f GiB: weights %.2f (%s), trained %.2f, optimizer %.2f, a batch of %d"
                                + " x %d %.2f, workspace %.2f",
                        needed.total() / 0x1p30,
                        adapted.get().budget() / 0x1p30,
                        needed.weights() / 0x1p30,
                        kept(effective),
                        needed.trained() / 0x1p30,
                        needed.state() / 0x1p30,
                        effective.get(Keys.BATCH),
                        effective.get(Keys.CONTEXT),
                        (needed.step() + needed.sums()) / 0x1p30,
                        needed.workspace() / 0x1p30));
    }

    /** Limits the default context to that of the model. */
    private RunConfig withinModel() {
        int context = facts.map(Model.ModelInfo::contextLength).orElse(Integer.MAX_VALUE);
        return config.isSet(Keys.CONTEXT) || config.get(Keys.CONTEXT) <= context
                ? config
                : config.with(Keys.CONTEXT, context);
    }

    /** Throws if the context is longer than the model supports. */
    public static void requireFit(RunConfig effective, Model.ModelInfo facts) {
        if (effective.get(Keys.CONTEXT) > facts.contextLength()) {
            throw effective.wrong(Keys.CONTEXT, "the model supports at most " + facts.contextLength() + " positions");
        }
    }

    /** Describes the weight types. */
    private String kept(RunConfig effective) {
        if (!effective.get(Keys.LORA)) {
            return "all trained";
        }
        ModelSpec known = blueprint.orElseThrow();
        if (!known.quantized().isEmpty()) {
            return known.quantized() + " as stored";
        }
        Quantization quantization = effective.quantization();
        return quantization.equals(Quantization.NONE)
                ? effective.get(Keys.DTYPE)
                : quantization + " and " + effective.get(Keys.DTYPE);
    }

    /** Checks the documents as the run will read them; without a model, only that they exist. */
    private Finding data() {
        if (facts.isEmpty() && config.get(Keys.DATASET).isEmpty()) {
            String file = config.get(Keys.TRAIN);
            if (file.isEmpty() || !Files.isRegularFile(Path.of(file))) {
                throw config.wrong(
                        Keys.TRAIN, file.isEmpty() ? "set data.path or data.train" : "the file does not exist");
            }
            return ready("data", file);
        }
        RunConfig effective = adapted.map(Adaptation::config).orElse(config);
        int vocabulary = facts.map(Model.ModelInfo::vocabSize).orElse(Integer.MAX_VALUE);
        Path place = model.orElse(Path.of(config.get(Keys.MODEL)));
        try (RunData data = RunData.open(effective, place, vocabulary, tokenizer)) {
            DataFacts train = data.train().facts();
            tokens = train.tokens();
            evaluated = data.sample().tokens();
            sequences = data.train().epoch(0).stream()
                    .limit(MEASURED_SEQUENCES)
                    .map(sequence -> data.train().read(sequence, 0))
                    .toList();
            boolean held = !data.sample().windows().isEmpty();
            String unused = train.describeUnused();
            String text = train.describeUsed() + "; " + (unused.isEmpty() ? "" : unused + "; ")
                    + (held ? "evaluated on " + data.sample().describe() : "no validation data")
                    + (train.dropped() == 0 ? "" : "; " + train.describeDropped());
            return new Finding(held && train.dropped() == 0 ? Level.READY : Level.WARNING, "data", text);
        }
    }

    /** Checks that the adapter to continue from matches the settings. */
    private Finding adapter() {
        Path from = Checkpoints.resolve(Path.of(config.get(Keys.ADAPTER)));
        if (model.isPresent() && adapted.isPresent()) {
            RunConfig effective = adapted.get().config();
            try (ModelFiles files = ModelFiles.open(model.get());
                    TrainableModel.Lora lora = TrainableModel.Lora.load(
                            effective,
                            files,
                            Device.of(shapes().scope()),
                            adapted.get().precisionOfRun())) {
                lora.restore(from);
            }
        }
        return ready("adapter", "continues from " + from);
    }

    /**
     * Checks the disk: fails without space for two checkpoints and a new model; warns without space for all checkpoints
     * to keep.
     */
    private Finding disk() {
        Path folder = Path.of(config.get(Keys.OUTPUT)).toAbsolutePath();
        while (folder.getParent() != null && !Files.isDirectory(folder)) {
            folder = folder.getParent();
        }
        try {
            long free = setup.disk().free(folder);
            long each = plan.map(needed -> needed.trained() + needed.state()).orElse(0L);
            long base = draft.isPresent() ? plan.map(MemoryPlan::trained).orElse(0L) : 0;
            long least = base + each * (goesOn() ? 1 : MIN_CHECKPOINTS) + SLACK;
            long most = base + each * (config.get(Keys.SAVE_LIMIT) + 2L) + SLACK;
            String text = (free >> 20) + " MiB free at " + folder + ", " + (least >> 20) + " MiB required, "
                    + (most >> 20) + " MiB with training.save_total_limit " + config.get(Keys.SAVE_LIMIT);
            if (free < least) {
                throw new TrainException(
                        text + ": free some space, choose another output.output_dir, or train fewer weights");
            }
            return new Finding(free < most && !goesOn() ? Level.WARNING : Level.READY, "disk", text);
        } catch (IOException failure) {
            throw new TrainException(folder + ": cannot be read: " + failure, failure);
        }
    }
}
