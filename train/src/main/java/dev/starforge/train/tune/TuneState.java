package dev.starforge.train.tune;

import dev.starforge.text.FileException;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Optional;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * The state file of {@link Tune}: its rounds, with the hashes of their inputs and of the output of each step. The file is
 * replaced atomically when a step is done.
 */
public final class TuneState {
    public static final String FILE = "tune.json";

    private static final String FORMAT = "starforge-tune";

    private final Path folder;
    private final ObjectNode root;

    private TuneState(Path folder, ObjectNode root) {
        this.folder = folder;
        this.root = root;
    }

    /** Opens the state of a folder. Does not write a new folder's state yet. */
    static TuneState open(Path folder) {
        Path file = folder.resolve(FILE);
        if (!Files.exists(file)) {
            requireEmpty(folder);
            ObjectNode root = Jackson.object().put("format", FORMAT).put("version", 1);
            root.putArray("rounds");
            return new TuneState(folder, root);
        }
        try {
            JsonNode read = Jackson.JSON.readTree(Files.readString(file));
            if (read instanceof ObjectNode root
                    && root.path("format").asString("").equals(FORMAT)
                    && root.path("version").asInt(0) == 1
                    && root.path("rounds") instanceof ArrayNode rounds
                    && rounds.valueStream().allMatch(JsonNode::isObject)) {
                return new TuneState(folder, root);
            }
            throw new TrainException(file + ": expected format " + FORMAT + " version 1 with a list of rounds, got "
                    + read.path("format") + " version " + read.path("version"));
        } catch (IOException | JacksonException failure) {
            throw new TrainException(file + ": cannot be read: " + failure, failure);
        }
    }

    /**
     * Returns the model file of a folder's last complete round; empty if the folder has no state file or no complete
     * round.
     */
    public static Optional<Path> modelOf(Path folder) {
        if (!Files.isRegularFile(folder.resolve(FILE))) {
            return Optional.empty();
        }
        String model = open(folder).root.path("model").asString("");
        return model.isEmpty() ? Optional.empty() : Optional.of(folder.resolve(model));
    }

    /**
     * What a model file was made of.
     *
     * @param base name of the base model
     * @param run folder of the run that trained the adapter; it may have been removed
     * @param evaluation metrics and completions of the round, with the prompts from the repository; empty if nothing is
     *     held out
     */
    public record Origin(String base, Path run, JsonNode evaluation) {}

    /**
     * Returns the origin of the model file of a folder's last complete round; empty for any other file. The model file does
     * not need its origin, so it is also empty if the state cannot be read.
     */
    public static Optional<Origin> originOf(Path model) {
        Path parent = model.toAbsolutePath().normalize().getParent();
        Path folder = parent == null ? null : parent.getParent();
        if (folder == null) {
            return Optional.empty();
        }
        try {
            return originIn(folder, model);
        } catch (TrainException | InvalidPathException unreadable) {
            return Optional.empty();
        }
    }

    private static Optional<Origin> originIn(Path folder, Path model) {
        if (modelOf(folder).filter(own -> isSame(own, model)).isEmpty()) {
            return Optional.empty();
        }
        TuneState state = open(folder);
        return IntStream.iterate(state.rounds().size() - 1, i -> i >= 0, i -> i - 1)
                .mapToObj(state::round)
                .filter(TuneRound::isComplete)
                .findFirst()
                .map(round -> new Origin(
                        round.inputs().model(),
                        folder.resolve("runs").resolve(String.valueOf(round.number())),
                        evaluation(round)));
    }

    /** The metrics of a round. They are only shown, so a file that has been edited or removed is no error. */
    private static JsonNode evaluation(TuneRound round) {
        try {
            return TuneSteps.evaluation(round).orElseGet(Jackson::object);
        } catch (TrainException | FileException changed) {
            return Jackson.object();
        }
    }

    private static boolean isSame(Path one, Path other) {
        return one.toAbsolutePath().normalize().equals(other.toAbsolutePath().normalize());
    }

    private static void requireEmpty(Path folder) {
        if (!Files.exists(folder)) {
            return;
        }
        try (Stream<Path> entries = Files.list(folder)) {
            Optional<String> foreign = entries.map(path -> path.getFileName().toString())
                    .filter(name -> !name.equals(".lock") && !name.equals(".gitignore"))
                    .sorted()
                    .findFirst();
            if (foreign.isPresent()) {
                throw new TrainException(folder + ": has no " + FILE + ", but other files such as " + foreign.get()
                        + "; choose another folder with --out");
            }
        } catch (IOException failure) {
            throw new TrainException(folder + ": cannot be read: " + failure, failure);
        }
    }

    private ArrayNode rounds() {
        return (ArrayNode) root.path("rounds");
    }

    /** The newest round, complete or not. */
    Optional<TuneRound> last() {
        return rounds().isEmpty() ? Optional.empty() : Optional.of(round(rounds().size() - 1));
    }

    private TuneRound round(int index) {
        return new TuneRound(folder, (ObjectNode) rounds().get(index), this::save);
    }

    /**
     * Starts a new round.
     *
     * @param tokensPerSecond measured throughput, recorded so that the plan does not change when the round is continued
     */
    TuneRound begin(TuneRound.Inputs inputs, TuneRequest request, double tokensPerSecond) {
        ObjectNode node = rounds().addObject().put("number", rounds().size());
        node.put("tokens_per_second", tokensPerSecond);
        inputs.write(node);
        request.write(node);
        save();
        return round(rounds().size() - 1);
    }

    /** Discards the last round, which has no result. */
    void discard() {
        rounds().remove(rounds().size() - 1);
        save();
    }

    /** Records the model file of the folder. The step that wrote it is recorded in the same write. */
    void publish(Path model) {
        root.put("model", folder.relativize(model).toString());
    }

    private void save() {
        Checkpoints.writeAtomically(folder.resolve(FILE), Jackson.indented(root) + "\n");
    }
}
