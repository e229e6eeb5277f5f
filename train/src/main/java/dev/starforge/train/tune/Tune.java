package dev.starforge.train.tune;

import dev.starforge.data.Dataset;
import dev.starforge.data.dataset.RepositoryFacts;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.parse.ParserStarter;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.device.Device;
import dev.starforge.text.config.Key;
import dev.starforge.text.file.FolderLock;
import dev.starforge.text.file.Hashes;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.plan.MachineFacts;
import dev.starforge.train.plan.Preflight;
import dev.starforge.train.weights.TrainableModel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * The {@code tune} command: from a git repository to a model that is ready to serve. The steps ({@link TuneStep}) run the
 * commands dataset, train, eval, merge and quantize. {@link TuneBudget} divides the time among them, {@link Recipe} supplies
 * defaults, {@link TuneSteps} runs them, and {@link TuneState} records each finished step, so an interrupted call is resumed
 * by the next. After new commits, the next round ({@link TuneRound}) trains the last adapter on those commits only; {@link
 * TuneHistory} decides what a call does.
 */
public final class Tune {
    /** The command asks for confirmation above this many seconds. */
    static final double CONFIRM_ABOVE_SECONDS = 600;

    /** Settings whose effect on a base that is quantized already is always stated. */
    private static final Set<String> QUANTIZATION = Set.of(Keys.FOUR_BIT.path(), Keys.EIGHT_BIT.path());

    private final Setup setup;
    private final long began;

    /** Settings of {@code train} and {@code dataset} that a tune decides itself. */
    private static final Map<Key<?>, String> REFUSED = Map.of(
            Keys.ADAPTER, "tune continues the adapters of its own rounds; `starforge train` continues any",
            Keys.SINCE, "tune trains on the commits that it has not trained on",
            Keys.MAX_MINUTES, "tune has --minutes, for all steps",
            DatasetKeys.TOKENIZER, "tune uses the tokenizer of the base");

    /** Settings of {@code dataset} and {@code train} in a shared file, for which tune has its own folders. */
    private static final List<Key<?>> UNUSED =
            List.of(Keys.DATASET, Keys.TRAIN, Keys.VALIDATION, Keys.TEST, Keys.OUTPUT, Keys.OVERWRITE);

    /**
     * What to tune, and the output folder.
     *
     * @param base name of the base model
     * @param model its path: a folder or a GGUF file
     */
    public record Setup(
            Path repository,
            Path output,
            RunConfig config,
            String base,
            Path model,
            Length length,
            Place place,
            Helpers helpers,
            TuneEvents events) {
        public Setup {
            if (!config.get(Keys.LORA)) {
                throw config.wrong(Keys.LORA, "tune trains an adapter; use `starforge train` to train all weights");
            }
            REFUSED.forEach((key, reason) -> {
                if (config.isSet(key) && !config.get(key).equals(key.missing())) {
                    throw config.wrong(key, reason);
                }
            });
        }

        Path data() {
            return output.resolve("data");
        }

        Path run(int round) {
            return output.resolve("runs").resolve(String.valueOf(round));
        }
    }

    /**
     * The length of the tune.
     *
     * @param minutes time for all steps; empty if the settings define the length of training
     * @param asked whether the user chose it; without new commits, the default length is that of the last round
     */
    public record Length(OptionalDouble minutes, boolean asked) {}

    /**
     * The device that runs the steps.
     *
     * @param reason why this device was chosen
     */
    public record Place(MachineFacts machine, Device device, String reason) {}

    /**
     * Functions that the command line supplies.
     *
     * @param parsers starts parsers, which may unpack files into the given folder
     */
    public record Helpers(Preflight.Models models, Function<Path, ParserStarter> parsers, LongSupplier nanoTime) {}

    /** How a call ended. */
    public enum End {
        FINISHED,
        UP_TO_DATE,
        NOTHING_TO_LEARN,
        DECLINED,
        INTERRUPTED
    }

    /**
     * Result of a call.
     *
     * @param model the file to serve; empty if there is none yet
     * @param round the state of the last round
     * @param evaluation metrics; empty if nothing is held out
     * @param note why there was nothing to do; empty otherwise
     */
    public record Result(
            End end, Optional<Path> model, ObjectNode round, Optional<ObjectNode> evaluation, String note) {}

    public Tune(Setup setup) {
        this.setup = setup;
        this.began = setup.helpers().nanoTime().getAsLong();
    }

    public Result run() throws IOException {
        RepositoryFacts facts =
                RepositoryFacts.of(setup.repository(), setup.config().get(DatasetKeys.SKIP_MISSING));
        List<Path> made = FolderLock.missing(setup.output());
        Files.createDirectories(setup.output());
        try (FolderLock _ = FolderLock.take(setup.output(), "starforge tune")) {
            return run(TuneState.open(setup.output()), facts);
        } finally {
            FolderLock.removeIfAlone(made);
        }
    }

    /** The settings of the dataset, if it exists. */
    private Optional<JsonNode> builtWith() {
        Path manifest = setup.data().resolve(Dataset.MANIFEST);
        return Files.exists(manifest)
                ? Optional.of(Jackson.JSON.readTree(manifest).path("config"))
                : Optional.empty();
    }

    private Result run(TuneState state, RepositoryFacts facts) throws IOException {
        TuneHistory history = new TuneHistory(setup, state, facts.head(), hash(setup.model()));
        if (history.start() == TuneStart.UP_TO_DATE) {
            return result(End.UP_TO_DATE, state.last().orElseThrow(), history.whyUpToDate());
        }
        TuneRound.Inputs inputs = history.inputs();
        int number = history.number();
        boolean resumes = history.start() == TuneStart.RESUME;
        Sizes sizes = sizes();
        RunConfig asked = history.settings();
        RunConfig config = Recipe.of(asked, sizes.parameters, sizes.context, history.rateFactor(), builtWith())
                .with(Keys.MODEL, setup.model().toString())
                .with(Keys.DATASET, setup.data().toString())
                .with(Keys.OUTPUT, setup.run(number).toString())
                .with(
                        Keys.ADAPTER,
                        inputs.from() == 0 ? "" : setup.run(inputs.from()).toString())
                .with(Keys.SINCE, inputs.after())
                .with(Keys.OVERWRITE, history.start() == TuneStart.RESTART);
        for (Key<String> file : List.of(Keys.TRAIN, Keys.VALIDATION, Keys.TEST)) {
            config = config.with(file, "");
        }
        Preflight preflight = Preflight.withoutData(new Preflight.Setup(
                config,
                setup.place().machine(),
                setup.place().device(),
                resumes && TuneSteps.hasBegun(setup.run(number)),
                setup.helpers().models(),
                Checkpoints.REAL));
        preflight.require();
        TuneBudget budget = new TuneBudget(
                history.seconds(),
                resumes
                        ? state.last().orElseThrow().tokensPerSecond()
                        : preflight.tokensPerSecond(setup.helpers().nanoTime()),
                sizes.parameters);
        setup.events().plan(plan(facts, history, preflight, budget));
        if (!resumes
                && budget.seconds().orElse(0) > CONFIRM_ABOVE_SECONDS
                && !setup.events().confirm(budget.seconds().getAsDouble())) {
            return new Result(End.DECLINED, TuneState.modelOf(setup.output()), Jackson.object(), Optional.empty(), "");
        }
        Files.writeString(setup.output().resolve(".gitignore"), "*\n");
        TuneRound round = history.begin(budget.tokensPerSecond());
        End end = new TuneSteps(setup, state, round, budget, config, this::passed).run();
        return result(end, round, "");
    }

    /** Parameter count and context length of the base model. */
    private record Sizes(long parameters, int context) {}

    private Sizes sizes() {
        try (ModelFiles files = ModelFiles.open(setup.model())) {
            long parameters = files.tensors().stream()
                    .map(ModelFiles.TensorInfo::shape)
                    .mapToLong(Shape::size)
                    .sum();
            return new Sizes(
                    parameters,
                    TrainableModel.shapes(files, setup.place().device()).contextLength());
        }
    }

    private double passed() {
        return (setup.helpers().nanoTime().getAsLong() - began) * 1e-9;
    }

    private TunePlan plan(RepositoryFacts facts, TuneHistory history, Preflight preflight, TuneBudget budget) {
        Map<TuneStep, Double> seconds = new EnumMap<>(TuneStep.class);
        double dataset = history.reusesDataset()
                ? 0
                : history.start() == TuneStart.NEW_COMMITS
                        ? TuneBudget.START
                        : facts.work().seconds();
        seconds.put(TuneStep.DATASET, dataset);
        if (budget.seconds().isPresent()) {
            seconds.put(TuneStep.TRAIN, budget.trainingSeconds(passed() + dataset));
        }
        seconds.put(TuneStep.EVALUATE, budget.evaluationSeconds());
        seconds.put(TuneStep.MERGE, budget.mergeSeconds() / 2);
        seconds.put(TuneStep.QUANTIZE, budget.mergeSeconds() / 2);
        List<String> notes = new ArrayList<>(history.notes());
        preflight.adaptation().rows().stream()
                .filter(row -> setup.config().explicit().containsKey(row.key()))
                .filter(row -> !row.configured().equals(row.effective()) || QUANTIZATION.contains(row.key()))
                .map(row -> row.key() + ": " + row.configured()
                        + (row.configured().equals(row.effective()) ? "" : " -> " + row.effective())
                        + " (" + row.why() + ")")
                .forEach(notes::add);
        String unused =
                UNUSED.stream().filter(setup.config()::isSet).map(Key::path).collect(Collectors.joining(", "));
        if (!unused.isEmpty()) {
            notes.add("not used, since tune makes its own dataset from the repository, in " + setup.output() + ": "
                    + unused);
        }
        return new TunePlan(
                setup.repository(),
                facts,
                history.number(),
                history.start(),
                notes,
                setup.base(),
                budget.parameters(),
                setup.place().machine().name() + " (" + setup.place().reason() + ")",
                budget.tokensPerSecond(),
                preflight.plannedBytes(),
                seconds,
                setup.output());
    }

    /** Hash of a file; for a folder the hash of the hashes of its config and weights. */
    private static String hash(Path model) throws IOException {
        if (Files.isRegularFile(model)) {
            return Hashes.sha256(model);
        }
        StringBuilder all = new StringBuilder();
        try (Stream<Path> files = Files.list(model)) {
            for (Path file : files.filter(each -> each.toString().matches(".*\\.(json|safetensors)"))
                    .sorted()
                    .toList()) {
                all.append(file.getFileName())
                        .append(' ')
                        .append(Hashes.sha256(file))
                        .append('\n');
            }
        }
        return Hashes.sha256(all.toString());
    }

    private Result result(End end, TuneRound round, String note) {
        return new Result(end, TuneState.modelOf(setup.output()), round.json(), TuneSteps.evaluation(round), note);
    }
}
