package dev.starforge.train.run;

import dev.starforge.text.json.Jackson;
import dev.starforge.train.checkpoint.MetricsLog;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.DataFacts;
import dev.starforge.train.corpus.RunData;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** {@code summary.json}: how a run ended, its losses, its use of the machine, and the curves. */
final class RunSummary {
    private RunSummary() {}

    static ObjectNode of(Path run, TrainRun.End end, RunConfig config, RunState state, RunData data, String device) {
        ObjectNode summary = Jackson.object();
        List<JsonNode> lines = MetricsLog.read(run);
        List<JsonNode> steps = lines.stream().filter(line -> line.has("loss")).toList();
        JsonNode last = steps.isEmpty() ? summary : steps.getLast();
        summary.put("status", end.name().toLowerCase(Locale.ROOT));
        summary.put("model", config.get(Keys.MODEL));
        summary.put("device", device);
        summary.put("epochs", last.path("epoch").asDouble(0));
        summary.put("steps", last.path("step").asLong(0));
        summary.put("tokens", last.path("tokens").asLong(0));
        summary.put("loss_tokens", state.lossTokens);
        summary.put("training_seconds", state.trainingSeconds);
        summary.put("evaluation_seconds", state.evaluationSeconds);
        summary.put("elapsed_seconds", state.elapsedSeconds);
        summary.put(
                "tokens_per_second",
                state.trainingSeconds > 0 ? last.path("tokens").asLong(0) / state.trainingSeconds : 0);
        facts(summary.putObject("train_data"), data.train().facts());
        facts(summary.putObject("val_data"), data.validation().facts());
        ObjectNode sample = summary.putObject("val_sample");
        sample.put("tokens", data.sample().tokens()).put("of", data.sample().of());
        sample.put("loss_tokens", data.sample().lossTokens())
                .put("seed", data.sample().seed());
        sample.put(
                "text", data.sample().windows().isEmpty() ? "" : data.sample().describe());
        summary.put(
                "skipped_steps",
                steps.stream().filter(line -> line.has("skipped")).count());
        number(summary, "final_train_loss", last.path("loss").asDouble(Double.NaN));
        number(summary, "final_val_loss", state.lastEvaluation);
        number(summary, "best_val_loss", state.bestLoss);
        summary.put("best_step", state.bestStep);
        number(summary, "final_perplexity", Math.exp(state.lastEvaluation));
        number(summary, "best_perplexity", Math.exp(state.bestLoss));
        history(summary, "train_loss_history", steps, "loss");
        history(summary, "lr_history", steps, "lr");
        history(summary, "grad_norm_history", steps, "grad_norm");
        List<JsonNode> evaluations =
                lines.stream().filter(line -> line.has("eval_loss")).toList();
        history(summary, "val_loss_history", evaluations, "eval_loss");
        history(summary, "val_steps", evaluations, "step");
        ObjectNode hardware = summary.putObject("hardware");
        range(hardware, "tokens_per_second", steps);
        range(hardware, "memory_bytes", steps);
        range(hardware, "resident_bytes", steps);
        range(hardware, "utilization", steps);
        if (last.has("device_memory_bytes")) {
            range(hardware, "device_memory_bytes", steps);
        }
        return summary;
    }

    private static void facts(ObjectNode node, DataFacts facts) {
        node.put("documents", facts.documents()).put("loss_tokens", facts.lossTokens());
        node.put("tokens", facts.tokens()).put("divided_documents", facts.divided());
        node.put("dropped_documents", facts.dropped()).put("dropped_loss_tokens", facts.droppedLossTokens());
        node.put("without_loss_documents", facts.withoutLoss().documents())
                .put("without_loss_tokens", facts.withoutLoss().tokens());
        node.put("unselected_documents", facts.unselected().documents())
                .put("unselected_tokens", facts.unselected().tokens());
        node.put("all_documents", facts.all().documents())
                .put("all_tokens", facts.all().tokens());
        node.put("note", facts.describeDropped());
    }

    /** Writes a number; omits infinities and NaN, which JSON cannot represent. */
    private static void number(ObjectNode node, String name, double value) {
        if (Double.isFinite(value)) {
            node.put(name, value);
        } else {
            node.putNull(name);
        }
    }

    private static void history(ObjectNode node, String name, List<JsonNode> lines, String field) {
        ArrayNode list = node.putArray(name);
        lines.forEach(line -> list.add(line.path(field)));
    }

    private static void range(ObjectNode node, String field, List<JsonNode> lines) {
        List<Double> values = new ArrayList<>();
        for (JsonNode line : lines) {
            if (line.path(field).isNumber()) {
                values.add(line.path(field).doubleValue());
            }
        }
        ObjectNode range = node.putObject(field);
        number(range, "min", values.stream().mapToDouble(v -> v).min().orElse(Double.NaN));
        number(range, "avg", values.stream().mapToDouble(v -> v).average().orElse(Double.NaN));
        number(range, "max", values.stream().mapToDouble(v -> v).max().orElse(Double.NaN));
    }
}
