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
 * {@code report.html}: a run at a glance. What its script is given here at the end of a run, a page that watches the run is
 * used while the run is live; both show the same.
 */
public final class ReportPage {
    private static final String SCRIPT = "run.js";
    private static final int MOST_STEPS = 2000;

    private ReportPage() {}

    /** The script that lays a run out. */
    public static String script() {
        return Report.read(SCRIPT, ReportPage.class.getResourceAsStream(SCRIPT));
    }

    static String render(Path run, JsonNode summary, Map<String, String> next) {
        ObjectNode data = figures(run, summary, next);
        ArrayNode lines = data.putArray("lines");
        thinned(MetricsLog.read(run)).forEach(lines::add);
        return Report.page("Training run", data, script());
    }

    /**
     * What the script shows of a run that has ended, but for its metrics.
     *
     * @param next next commands, by purpose
     */
    public static ObjectNode figures(Path run, JsonNode summary, Map<String, String> next) {
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

    /** The file that a run writes its metrics to. */
    public static Path metrics(Path run) {
        return run.resolve(MetricsLog.FILE);
    }

    /** What the model wrote before training and, at the end, after; empty where there is nothing yet. */
    public static JsonNode samples(Path run) {
        Path file = run.resolve(GenerationSamples.FILE);
        return Files.exists(file)
                ? Jackson.JSON.readTree(file).path("samples")
                : Jackson.object().putArray("samples");
    }

    /** Every evaluation, and as many steps as a chart can tell apart. */
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
