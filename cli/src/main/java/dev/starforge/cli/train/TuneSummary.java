package dev.starforge.cli.train;

import dev.starforge.api.server.ModelServer;
import dev.starforge.cli.model.DefaultModel;
import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.serve.EditorSettings;
import dev.starforge.text.fim.FimMarkers;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.report.ShellQuoting;
import dev.starforge.train.Durations;
import dev.starforge.train.text.Tokenizers;
import dev.starforge.train.tune.Tune;
import dev.starforge.train.tune.TuneStep;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/** Summary of {@code tune}: metrics of base and tuned model, example completions, output files and next commands. */
public final class TuneSummary {
    private static final String URL = "http://127.0.0.1:8080";
    private static final int SAMPLES = 3;
    private static final int SAMPLE_LINES = 3;

    private final Tune.Result result;
    private final double seconds;
    private final List<String> lines = new ArrayList<>();

    public TuneSummary(Tune.Result result, double seconds) {
        this.result = result;
        this.seconds = seconds;
    }

    public String text() {
        lines.clear();
        switch (result.end()) {
            case FINISHED -> lines.add("\nDone in " + Durations.text(seconds) + ".");
            case UP_TO_DATE -> lines.add("Up to date: no new commits since the last run. Results of that run:");
            case NOTHING_TO_LEARN ->
                lines.add("The new commits contain nothing to train on (docs, data, duplicates); the model is"
                        + " unchanged.");
            case DECLINED -> lines.add("Cancelled; nothing was trained.");
            case INTERRUPTED -> lines.add("Interrupted and saved; run the same command again to continue.");
        }
        if (result.end() == Tune.End.FINISHED || result.end() == Tune.End.UP_TO_DATE) {
            result.evaluation().ifPresent(measured -> {
                figures(measured);
                samples(measured);
            });
            result.model().ifPresent(this::use);
        }
        return String.join("\n", lines) + "\n";
    }

    private void figures(JsonNode measured) {
        lines.add(String.format("%n%-16s %-28s %-28s %s", "", "base", "tuned", "difference [95 % CI]"));
        for (Map.Entry<String, String> row :
                List.of(Map.entry("bits per byte", "bits_per_byte"), Map.entry("perplexity", "perplexity"))) {
            lines.add(String.format(
                            "%-16s %-28s %-28s %s",
                            row.getKey(),
                            figure(measured.path("base").path(row.getValue())),
                            figure(measured.path("tuned").path(row.getValue())),
                            figure(measured.path("tuned_minus_base").path(row.getValue())))
                    .stripTrailing());
        }
        lines.add(
                "on " + measured.path("sample").path("text").asString("") + ", from commits outside the training data: "
                        + verdict(measured.path("tuned_minus_base").path("bits_per_byte")));
    }

    private static String verdict(JsonNode difference) {
        return difference.path("high").doubleValue() < 0
                ? "tuned is better (95 % confidence)"
                : difference.path("low").doubleValue() > 0
                        ? "tuned is worse (95 % confidence); longer training (--minutes) or a lower learning rate may"
                                + " help"
                        : "no significant difference; longer training (--minutes) may help";
    }

    private static String figure(JsonNode node) {
        return String.format(
                Locale.ROOT,
                "%.3f [%.3f, %.3f]",
                node.path("value").doubleValue(),
                node.path("low").doubleValue(),
                node.path("high").doubleValue());
    }

    private void samples(JsonNode measured) {
        int shown = Math.min(SAMPLES, measured.path("prompts").size());
        for (int i = 0; i < shown; i++) {
            JsonNode prompt = measured.path("prompts").path(i);
            lines.add("\nCompletion " + (i + 1) + " of " + shown
                    + (prompt.has("path")
                            ? ", in " + Escaped.of(prompt.path("path").asString(""))
                            : ""));
            add("        ", last(prompt.path("prompt").asString("")));
            add("  base  ", first(prompt.path("base").path("text").asString("")));
            add("  tuned ", first(prompt.path("tuned").path("text").asString("")));
            if (prompt.has("added")) {
                add("  real  ", first(prompt.path("added").asString("")));
            }
        }
    }

    private void add(String label, List<String> text) {
        for (int i = 0; i < text.size(); i++) {
            lines.add((i == 0 ? label : " ".repeat(label.length())) + "| " + Escaped.replaceControls(text.get(i)));
        }
    }

    private static List<String> first(String text) {
        List<String> all =
                text.lines().filter(line -> !line.isBlank()).limit(SAMPLE_LINES).toList();
        return all.isEmpty() ? List.of("(nothing)") : all;
    }

    private static List<String> last(String text) {
        List<String> all = text.lines().filter(line -> !line.isBlank()).toList();
        return all.subList(Math.max(0, all.size() - SAMPLE_LINES), all.size());
    }

    private void use(Path model) {
        Path folder = model.resolveSibling("..").normalize();
        lines.add("\nmodel    " + Escaped.of(model));
        lines.add("adapter  " + Escaped.of(folder.resolve("runs").resolve(number())));
        lines.add("reports  " + Escaped.of(folder.resolve("data").resolve("report.html")) + ", "
                + Escaped.of(folder.resolve("runs").resolve(number()).resolve("report.html")));
        lines.add("\nTry:          " + tryIt());
        lines.add("Serve:        " + serve(model));
        lines.add("Evaluate:     " + measure(folder));
        lines.add("\nEditor configuration while the model is served (also in "
                + Escaped.of(model.resolveSibling("README.md")) + "):\n");
        lines.add(editors(model).indent(2).stripTrailing());
    }

    private String number() {
        return String.valueOf(result.round().path("number").asInt(0));
    }

    private String tryIt() {
        Path model = result.model().orElseThrow();
        Path here = Path.of("").toAbsolutePath().resolve(DefaultModel.FOLDER);
        boolean found = model.toAbsolutePath().normalize().startsWith(here);
        return "starforge run" + (found ? "" : " " + ShellQuoting.quoted(model));
    }

    private static String serve(Path model) {
        return "starforge serve " + ShellQuoting.quoted(model);
    }

    private String measure(Path folder) {
        Path run = folder.resolve("runs").resolve(number());
        return "starforge eval --config " + ShellQuoting.quoted(run.resolve("config.yaml")) + " --adapter "
                + ShellQuoting.quoted(run);
    }

    /** Configuration for editors. */
    private static String editors(Path model) {
        return EditorSettings.blocks(
                URL, ModelServer.nameOf(model), Tokenizers.find(model).flatMap(FimMarkers::of));
    }

    /** README of the tuned model. */
    public String card() {
        Path model = result.model().orElseThrow();
        StringBuilder card = new StringBuilder("# " + ModelServer.nameOf(model) + "\n\n");
        card.append(result.round().path("base").asString("")).append(", tuned with Starforge on commits up to ");
        card.append(result.round().path("head").asString("")).append(".\n\n```\n");
        lines.clear();
        result.evaluation().ifPresent(this::figures);
        card.append(String.join("\n", lines).strip())
                .append("\n```\n\nServe it:\n\n    ")
                .append(serve(model));
        return card.append("\n\nEditor configuration while the model is served:\n\n```\n")
                .append(editors(model))
                .append("```\n")
                .toString();
    }

    public ObjectNode json() {
        ObjectNode json = Jackson.object();
        json.put("end", result.end().name().toLowerCase(Locale.ROOT)).put("seconds", Math.round(seconds * 10) / 10.0);
        json.set("round", result.round());
        Optional<Path> model = result.model();
        model.ifPresent(file -> json.put("model", file.toString()).put("serve", serve(file)));
        ObjectNode times = json.putObject("step_seconds");
        for (TuneStep step : TuneStep.values()) {
            JsonNode took = result.round().path("steps").path(step.label()).path("seconds");
            if (took.isNumber()) {
                times.put(step.label(), took.doubleValue());
            }
        }
        result.evaluation().ifPresent(measured -> json.set("evaluation", measured));
        return json;
    }
}
