package dev.starforge.train.checkpoint;

import dev.starforge.text.json.Jackson;
import dev.starforge.train.TrainException;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * {@code metrics.jsonl}: one line per step and per evaluation. Each checkpoint has a copy. A resumed run starts with
 * the copy of its checkpoint, so no step appears twice.
 */
public final class MetricsLog implements AutoCloseable {
    public static final String FILE = "metrics.jsonl";

    private final Path file;
    private BufferedWriter out;

    /** Starts the file with the lines of {@code from}. */
    public MetricsLog(Path run, List<String> from) {
        file = run.resolve(FILE);
        try {
            Path partial = run.resolve(".partial-" + FILE);
            Files.write(partial, from);
            Files.move(partial, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            out = Files.newBufferedWriter(file, StandardOpenOption.APPEND);
        } catch (IOException failure) {
            throw failed(failure);
        }
    }

    public void step(RunEvents.Step step) {
        ObjectNode line = Jackson.object();
        line.put("step", step.step());
        line.put("epoch", step.epoch());
        line.put("tokens", step.tokens());
        line.put("loss_tokens", step.lossTokens());
        line.put("loss", step.loss());
        line.put("lr", step.learningRate());
        line.put("grad_norm", step.gradientNorm());
        line.put("tokens_per_second", step.tokensPerSecond());
        line.put("memory_bytes", step.memoryBytes());
        line.put("resident_bytes", step.residentBytes());
        if (step.usage().utilization() >= 0) {
            line.put("utilization", step.usage().utilization());
        }
        if (step.usage().memoryBytes() >= 0) {
            line.put("device_memory_bytes", step.usage().memoryBytes());
        }
        if (!step.moved()) {
            line.put("skipped", true);
        }
        write(line);
    }

    public void evaluated(long step, double loss, boolean best) {
        ObjectNode line = Jackson.object();
        line.put("step", step);
        line.put("eval_loss", loss);
        line.put("eval_perplexity", Math.exp(loss));
        line.put("best", best);
        write(line);
    }

    private void write(ObjectNode line) {
        try {
            out.write(Jackson.JSON.writeValueAsString(line));
            out.write('\n');
            out.flush();
        } catch (IOException failure) {
            throw failed(failure);
        }
    }

    private TrainException failed(IOException failure) {
        return new TrainException(file + ": cannot be written: " + failure, failure);
    }

    public static List<String> lines(Path file) {
        try {
            return Files.exists(file) ? Files.readAllLines(file) : List.of();
        } catch (IOException failure) {
            throw new TrainException(file + ": cannot be read: " + failure, failure);
        }
    }

    /** Reads and parses the lines of a run's file. */
    public static List<JsonNode> read(Path run) {
        List<JsonNode> lines = new ArrayList<>();
        lines(run.resolve(FILE)).forEach(line -> lines.add(Jackson.JSON.readTree(line)));
        return lines;
    }

    @Override
    public void close() {
        try {
            out.close();
        } catch (IOException failure) {
            throw failed(failure);
        }
    }
}
