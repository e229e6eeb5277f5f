package dev.starforge.train.tune;

import dev.starforge.text.file.Hashes;
import dev.starforge.train.TrainException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
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
     * @param from round whose adapter is trained further; 0 for a new adapter
     * @param after newest commit that earlier rounds trained on; empty if the round trains on all commits
     * @param afterTime time of that commit, in seconds since 1970
     * @param spentMinutes time that the adapter's earlier rounds had for the same commits
     */
    record Inputs(
            String head, String model, String modelHash, int from, String after, long afterTime, double spentMinutes) {
        static Inputs read(JsonNode node) {
            return new Inputs(
                    node.path("head").asString(""),
                    node.path("base").asString(""),
                    node.path("base_sha256").asString(""),
                    node.path("from").asInt(node.path("number").asInt(1) - 1),
                    node.path("after").asString(""),
                    node.path("after_time").asLong(Long.MIN_VALUE),
                    node.path("spent_minutes").asDouble(0));
        }

        void write(ObjectNode node) {
            node.put("head", head).put("base", model).put("base_sha256", modelHash);
            node.put("from", from).put("after", after).put("after_time", afterTime);
            node.put("spent_minutes", spentMinutes);
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

    TuneRequest request() {
        return TuneRequest.read(node);
    }

    /** Records another length than the round was begun with. */
    void change(TuneRequest request) {
        request.write(node);
        save.run();
    }

    /** Minutes that the round's commits have had: the recorded budget, or the time of the steps. */
    double usedMinutes() {
        return request()
                .minutes()
                .orElseGet(() ->
                        Stream.of(TuneStep.values()).mapToDouble(this::seconds).sum() / 60);
    }

    /** Seconds of the budget that training does not get. */
    double secondsOfOtherSteps() {
        return node.path("seconds_of_other_steps").asDouble(0);
    }

    void secondsOfOtherSteps(double seconds) {
        node.put("seconds_of_other_steps", seconds);
        save.run();
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
