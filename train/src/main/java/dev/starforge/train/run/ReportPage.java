package dev.starforge.train.run;

import dev.starforge.text.json.Jackson;
import dev.starforge.text.report.Report;
import dev.starforge.train.checkpoint.MetricsLog;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * {@code report.html}, the summary of a run. The same script draws the report of a finished run from this data and the
 * page of a live run.
 */
public final class ReportPage {
    private static final String SCRIPT = "run.js";
    private static final int MOST_STEPS = 2000;

    private ReportPage() {}

    /** The script that draws the report. */
    public static String script() {
        return Report.read(SCRIPT, ReportPage.class.getResourceAsStream(SCRIPT));
    }

    static String render(Path run, JsonNode summary, Map<String, String> next) {
        ObjectNode data = reportData(run, summary, next);
        ArrayNode lines = data.putArray("lines");
        thinned(MetricsLog.read(run)).forEach(lines::add);
        return Report.page("Training run", data, script());
    }

    /**
     * The script's data of a finished run, without metrics.
     *
     * @param next next commands, by purpose
     */
    public static ObjectNode reportData(Path run, JsonNode summary, Map<String, String> next) {
        ObjectNode data = Jackson.object();
        List.of("status", "model", "device").forEach(name -> data.set(name, summary.path(name)));
        ObjectNode figures = data.putObject("summary");
        summary.properties().forEach(each -> {
            if (!each.getKey().endsWith("_history")) {
                figures.set(each.getKey(), each.getValue());
            }
        });
        data.set("samples", samples(run));
        if (!next.isEmpty()) {
            next.forEach(data.putObject("next")::put);
        }
        return data;
    }

    /** The metrics file of a run. */
    public static Path metrics(Path run) {
        return run.resolve(MetricsLog.FILE);
    }

    /** The samples generated before and, at the end, after training; empty if there are none yet. */
    public static JsonNode samples(Path run) {
        Path file = run.resolve(GenerationSamples.FILE);
        return Files.exists(file)
                ? Jackson.JSON.readTree(file).path("samples")
                : Jackson.object().putArray("samples");
    }

    /** All evaluations, and as many steps as a chart can resolve. */
    private static List<JsonNode> thinned(List<JsonNode> lines) {
        long steps = lines.stream().filter(line -> line.has("loss")).count();
        long every = Math.max(1, (steps + MOST_STEPS - 1) / MOST_STEPS);
        List<JsonNode> kept = new ArrayList<>();
        long step = 0;
        for (JsonNode line : lines) {
            boolean last = line.has("loss") && step == steps - 1;
            if (!line.has("loss") || step++ % every == 0 || last) {
                kept.add(line);
            }
        }
        return kept;
    }
}
