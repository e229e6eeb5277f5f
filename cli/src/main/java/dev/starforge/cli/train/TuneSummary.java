package dev.starforge.cli.train;

import dev.starforge.api.server.ModelServer;
import dev.starforge.cli.model.DefaultModel;
import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.output.Terminal;
import dev.starforge.cli.output.TextTable;
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
    private static final String COLUMNS = "%-10s  %-20s  %-20s  %s";
    private static final int DECIMALS = 3;
    private static final int SAMPLES = 3;
    private static final int SAMPLE_LINES = 3;

    private final Tune.Result result;
    private final double seconds;
    private final int width;
    private final List<String> lines = new ArrayList<>();

    /** @param width columns of the terminal, to which lines of code are cut */
    public TuneSummary(Tune.Result result, double seconds, int width) {
        this.result = result;
        this.seconds = seconds;
        this.width = width;
    }

    public String text() {
        lines.clear();
        switch (result.end()) {
            case FINISHED -> lines.add("\nDone in " + Durations.text(seconds) + ".");
            case UP_TO_DATE -> lines.add("Up to date: " + result.note() + ".\nResults of the last run:");
            case NOTHING_TO_LEARN ->
                lines.add(
                        "The new commits contain nothing to train on, for the reasons above; the model is unchanged.");
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
        lines.add(String.format("%n" + COLUMNS, "", "base", "tuned", "difference [95 % CI]"));
        for (Map.Entry<String, String> row :
                List.of(Map.entry("bits/byte", "bits_per_byte"), Map.entry("perplexity", "perplexity"))) {
            lines.add(String.format(
                            COLUMNS,
                            row.getKey(),
                            TextTable.interval(measured.path("base").path(row.getValue()), DECIMALS),
                            TextTable.interval(measured.path("tuned").path(row.getValue()), DECIMALS),
                            TextTable.interval(measured.path("tuned_minus_base").path(row.getValue()), DECIMALS))
                    .stripTrailing());
        }
        lines.add("on " + measured.path("sample").path("text").asString("")
                + ",\nfrom commits outside the training data");
        lines.add(verdict(measured.path("tuned_minus_base").path("bits_per_byte")));
    }

    private static String verdict(JsonNode difference) {
        return difference.path("high").doubleValue() < 0
                ? "=> tuned is better (95 % confidence)"
                : difference.path("low").doubleValue() > 0
                        ? "=> tuned is worse (95 % confidence); a lower learning rate (--set\n"
                                + "   optimization.learning_rate=R) or longer training (--minutes N) may help"
                        : "=> no significant difference; longer training (--minutes N) may help: the same\n"
                                + "   command with more minutes continues this one";
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
            String line = (i == 0 ? label : " ".repeat(label.length())) + "| " + Escaped.replaceControls(text.get(i));
            lines.add(Terminal.cut(line.replace("\t", "    "), width));
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
        lines.add("reports  " + Escaped.of(folder.resolve("data").resolve("report.html")));
        lines.add("         "
                + Escaped.of(folder.resolve("runs").resolve(number()).resolve("report.html")));
        lines.add("\nTry:          " + tryIt());
        lines.add("Serve:        " + serve(model));
        lines.add("Evaluate:     " + measure(folder));
        lines.add("\nEditor configuration while the model is served, also in\n"
                + Escaped.of(model.resolveSibling("README.md")) + ":\n");
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
