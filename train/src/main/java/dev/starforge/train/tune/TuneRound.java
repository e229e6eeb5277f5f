package dev.starforge.train.tune;

import dev.starforge.text.file.Hashes;
import dev.starforge.train.TrainException;
import java.nio.file.Files;
import java.nio.file.Path;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/** One round in {@link TuneState}: its inputs, its finished steps, and their outputs. */
final class TuneRound {
    private final Path folder;
    private final ObjectNode node;
    private final Runnable save;

    /**
     * Inputs of a round.
     *
     * @param head newest commit of the dataset
     * @param model name of the base model
     * @param modelHash hash of its files
     * @param settings hash of the configured settings
     * @param after newest commit that earlier rounds trained on; empty for the first round
     * @param afterTime time of that commit, in seconds since 1970
     */
    record Inputs(String head, String model, String modelHash, String settings, String after, long afterTime) {
        static Inputs read(JsonNode node) {
            return new Inputs(
                    node.path("head").asString(""),
                    node.path("base").asString(""),
                    node.path("base_sha256").asString(""),
                    node.path("settings_sha256").asString(""),
                    node.path("after").asString(""),
                    node.path("after_time").asLong(Long.MIN_VALUE));
        }

        void write(ObjectNode node) {
            node.put("head", head).put("base", model).put("base_sha256", modelHash);
            node.put("settings_sha256", settings).put("after", after).put("after_time", afterTime);
        }
    }

    TuneRound(Path folder, ObjectNode node, Runnable save) {
        this.folder = folder;
        this.node = node;
        this.save = save;
    }

    int number() {
        return node.path("number").asInt(0);
    }

    double tokensPerSecond() {
        return node.path("tokens_per_second").asDouble(1);
    }

    Inputs inputs() {
        return Inputs.read(node);
    }

    boolean isDone(TuneStep step) {
        return node.path("steps").has(step.label());
    }

    boolean isComplete() {
        return isDone(TuneStep.QUANTIZE);
    }

    /** The results that a step recorded, without its duration. */
    JsonNode facts(TuneStep step) {
        return node.path("steps").path(step.label());
    }

    double seconds(TuneStep step) {
        return facts(step).path("seconds").asDouble(0);
    }

    /** Records a finished step with the hash of its output. */
    void done(TuneStep step, ObjectNode facts, Path output, double seconds) {
        facts.put("output", folder.relativize(output).toString());
        facts.put("sha256", Hashes.sha256(output)).put("seconds", Math.round(seconds * 10) / 10.0);
        ObjectNode steps = node.path("steps") instanceof ObjectNode there ? there : node.putObject("steps");
        steps.set(step.label(), facts);
        save.run();
    }

    /** The output file of a step; fails if its hash differs. */
    Path output(TuneStep step) {
        Path file = folder.resolve(facts(step).path("output").asString(""));
        String expected = facts(step).path("sha256").asString("");
        String actual = Files.isRegularFile(file) ? Hashes.sha256(file) : "none";
        if (!actual.equals(expected)) {
            throw new TrainException(file + ": has changed since step " + step.label() + ": expected SHA-256 "
                    + expected + ", got " + actual + "; remove " + folder + " to start again");
        }
        return file;
    }

    ObjectNode json() {
        return node;
    }
}
