package dev.starforge.train.tune;

import dev.starforge.data.Dataset;
import dev.starforge.data.dataset.RepositoryFacts;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.parse.ParserStarter;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.device.Device;
import dev.starforge.text.file.FolderLock;
import dev.starforge.text.file.Hashes;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.plan.MachineFacts;
import dev.starforge.train.plan.Preflight;
import dev.starforge.train.weights.TrainableModel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * The {@code tune} command: from a git repository to a model that is ready to serve. The steps ({@link TuneStep}) run the
 * commands dataset, train, eval, merge and quantize. {@link TuneBudget} divides the time among them, {@link Recipe} supplies
 * defaults, {@link TuneSteps} runs them, and {@link TuneState} records each finished step, so an interrupted call is resumed
 * by the next. After new commits, the next round ({@link TuneRound}) trains the last adapter on those commits only.
 */
public final class Tune {
    /** The command asks for confirmation above this many seconds. */
    static final double CONFIRM_ABOVE_SECONDS = 600;

    private static final double SECONDS = 60;

    private final Setup setup;
    private final long began;

    /**
     * What to tune, and the output folder.
     *
     * @param base name of the base model
     * @param model its path: a folder or a GGUF file
     * @param minutes time for all steps; empty if the settings define the length of training
     */
    public record Setup(
            Path repository,
            Path output,
            RunConfig config,
            String base,
            Path model,
            OptionalDouble minutes,
            Place place,
            Helpers helpers,
            TuneEvents events) {
        public Setup {
            if (!config.get(Keys.LORA)) {
                throw config.wrong(Keys.LORA, "tune trains an adapter; use `starforge train` to train all weights");
            }
        }

        Path data() {
            return output.resolve("data");
        }

        Path run(int round) {
            return output.resolve("runs").resolve(String.valueOf(round));
        }
    }

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
     */
    public record Result(End end, Optional<Path> model, ObjectNode round, Optional<ObjectNode> evaluation) {}

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
        Optional<TuneRound> last = state.last();
        boolean continues = last.isPresent() && !last.get().isComplete();
        TuneRound.Inputs inputs = inputs(facts.head(), last);
        if (continues) {
            requireSame(inputs, last.get().inputs());
        } else if (last.isPresent()) {
            requireBase(inputs, last.get().inputs());
            if (last.get().inputs().head().equals(facts.head())) {
                return result(End.UP_TO_DATE, last.get());
            }
        }
        int number = last.map(TuneRound::number).orElse(0) + (continues ? 0 : 1);
        Sizes sizes = sizes();
        RunConfig config = Recipe.of(setup.config(), sizes.parameters, sizes.context, number > 1, builtWith())
                .with(Keys.MODEL, setup.model().toString())
                .with(Keys.DATASET, setup.data().toString())
                .with(Keys.OUTPUT, setup.run(number).toString())
                .with(Keys.ADAPTER, number == 1 ? "" : setup.run(number - 1).toString())
                .with(Keys.SINCE, inputs.after());
        Preflight preflight = Preflight.withoutData(new Preflight.Setup(
                config,
                setup.place().machine(),
                setup.place().device(),
                TuneSteps.hasBegun(setup.run(number)),
                setup.helpers().models(),
                Checkpoints.REAL));
        preflight.require();
        TuneBudget budget = new TuneBudget(
                setup.minutes().stream().map(minutes -> SECONDS * minutes).findFirst(),
                continues
                        ? last.get().tokensPerSecond()
                        : preflight.tokensPerSecond(setup.helpers().nanoTime()),
                sizes.parameters);
        setup.events().plan(plan(facts, number, continues, preflight, budget));
        if (!continues
                && budget.seconds().orElse(0) > CONFIRM_ABOVE_SECONDS
                && !setup.events().confirm(budget.seconds().getAsDouble())) {
            return new Result(End.DECLINED, TuneState.modelOf(setup.output()), Jackson.object(), Optional.empty());
        }
        Files.writeString(setup.output().resolve(".gitignore"), "*\n");
        TuneRound round = continues ? last.get() : state.begin(inputs, budget.tokensPerSecond());
        End end = new TuneSteps(setup, state, round, budget, config, this::passed).run();
        return result(end, round);
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

    private TunePlan plan(RepositoryFacts facts, int round, boolean continues, Preflight preflight, TuneBudget budget) {
        Map<TuneStep, Double> seconds = new EnumMap<>(TuneStep.class);
        double dataset = facts.work().seconds();
        seconds.put(TuneStep.DATASET, dataset);
        if (budget.seconds().isPresent()) {
            seconds.put(TuneStep.TRAIN, budget.trainingSeconds(passed() + dataset));
        }
        seconds.put(TuneStep.EVALUATE, budget.evaluationSeconds());
        seconds.put(TuneStep.MERGE, budget.mergeSeconds() / 2);
        seconds.put(TuneStep.QUANTIZE, budget.mergeSeconds() / 2);
        return new TunePlan(
                setup.repository(),
                facts,
                round,
                continues,
                setup.base(),
                budget.parameters(),
                setup.place().machine().name() + " (" + setup.place().reason() + ")",
                budget.tokensPerSecond(),
                preflight.plannedBytes(),
                seconds,
                setup.output());
    }

    private TuneRound.Inputs inputs(String head, Optional<TuneRound> last) throws IOException {
        String hash = hash(setup.model());
        String settings = Hashes.sha256(setup.config().yaml());
        if (last.isEmpty()) {
            return new TuneRound.Inputs(head, setup.base(), hash, settings, "", Long.MIN_VALUE);
        }
        TuneRound before = last.get();
        if (!before.isComplete()) {
            TuneRound.Inputs begun = before.inputs();
            return new TuneRound.Inputs(begun.head(), setup.base(), hash, settings, begun.after(), begun.afterTime());
        }
        JsonNode data = before.facts(TuneStep.DATASET);
        return new TuneRound.Inputs(
                head,
                setup.base(),
                hash,
                settings,
                data.path("newest_trained").asString(""),
                data.path("newest_trained_time").asLong());
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

    private void requireSame(TuneRound.Inputs now, TuneRound.Inputs begun) {
        requireBase(now, begun);
        if (!now.settings().equals(begun.settings())) {
            throw new TrainException(setup.output() + ": an unfinished run of tune has other settings; pass the same "
                    + "again to continue it, or choose another folder with --out");
        }
    }

    private void requireBase(TuneRound.Inputs now, TuneRound.Inputs before) {
        if (!now.modelHash().equals(before.modelHash())) {
            throw new TrainException(setup.output() + ": tunes " + before.model() + " (SHA-256 "
                    + before.modelHash().substring(0, 12) + "), not " + now.model() + " ("
                    + now.modelHash().substring(0, 12) + "); choose another folder with --out");
        }
    }

    private Result result(End end, TuneRound round) {
        return new Result(end, TuneState.modelOf(setup.output()), round.json(), TuneSteps.evaluation(round));
    }
}
