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
     * What a round begins with.
     *
     * @param head the newest commit that is read
     * @param model the base's name
     * @param modelHash of its files
     * @param settings hash of the settings that were asked for
     * @param after the newest commit that earlier rounds trained on; empty for the first
     * @param afterTime its time, in seconds since 1970
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

    boolean isWhole() {
        return isDone(TuneStep.QUANTIZE);
    }

    /** What a step recorded besides its time. */
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
            throw new TrainException(file + ": is not what the step " + step.label() + " wrote: expected SHA-256 "
                    + expected + ", got " + actual + "; remove " + folder + " to begin again");
        }
        return file;
    }

    ObjectNode json() {
        return node;
    }
}
