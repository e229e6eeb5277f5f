package dev.starforge.train.run;

import dev.starforge.data.Jackson;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import tools.jackson.databind.JsonNode;

/**
 * {@code report.html}: a run at a glance. One file that needs nothing from anywhere: curves are drawn here as SVG, and a few
 * lines of script show the values under the pointer.
 */
public final class ReportPage {
    private static final int WIDTH = 860;
    private static final int HEIGHT = 240;
    private static final int LEFT = 64;
    private static final int BOTTOM = 28;
    private static final int TOP = 12;
    private static final int MOST_POINTS = 2000;

    private ReportPage() {}

    private record Curve(String name, String colour, List<double[]> points) {}

    static String render(Path run, JsonNode summary) {
        List<JsonNode> lines = Metrics.read(run);
        List<double[]> loss = points(lines, "loss");
        StringBuilder page = new StringBuilder();
        page.append("""
                <!doctype html>
                <html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
                <title>Training run</title>
                <style>
                body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#1c2330;background:#fff}
                h1{font-size:1.5em;margin:0}h2{font-size:1.05em;margin:1.8em 0 .3em}
                table{border-collapse:collapse}td{padding:.15em 1.2em .15em 0;vertical-align:top}td:first-child{color:#667;white-space:nowrap}
                svg{width:100%;height:auto;display:block}.grid{stroke:#e4e7ee}.axis{fill:#667;font-size:12px}
                .key{font-size:13px;color:#445}.key i{display:inline-block;width:1.2em;height:.25em;margin:0 .4em .2em 1em}
                pre{background:#f5f6f9;padding:.7em;white-space:pre-wrap;overflow-wrap:anywhere;font-size:13px;margin:.3em 0}
                .pair{display:grid;grid-template-columns:1fr 1fr;gap:1em}.small{color:#667;font-size:13px}
                @media(prefers-color-scheme:dark){body{background:#14171d;color:#dde}pre{background:#1e232c}.grid{stroke:#2c323e}
                .axis,.small,td:first-child{fill:#99a;color:#99a}.key{color:#bbc}}
                </style></head><body>
                """);
        page.append("<h1>Training run</h1><p class=small>")
                .append(escape(summary.path("model").asString("")))
                .append(" · ")
                .append(escape(summary.path("device").asString("")))
                .append(" · ")
                .append(escape(summary.path("status").asString("").replace('_', ' ')))
                .append("</p><table>");
        row(page, "steps", summary.path("steps").asString("") + " in " + format(summary.path("epochs")) + " epochs");
        row(
                page,
                "tokens in the loss",
                String.format(
                        Locale.ROOT,
                        "%,d, of %,d read",
                        summary.path("loss_tokens").asLong(0),
                        summary.path("tokens").asLong(0)));
        row(
                page,
                "time",
                Durations.text(summary.path("elapsed_seconds").asDouble(0)) + ", of which training "
                        + Durations.text(summary.path("training_seconds").asDouble(0)) + ", evaluation "
                        + Durations.text(summary.path("evaluation_seconds").asDouble(0)));
        row(page, "tokens per second", format(summary.path("tokens_per_second")));
        row(page, "training loss", format(summary.path("final_train_loss")));
        row(
                page,
                "validation loss",
                format(summary.path("final_val_loss")) + ", best " + format(summary.path("best_val_loss")) + " at step "
                        + summary.path("best_step").asString(""));
        if (!summary.path("val_sample").path("text").asString("").isEmpty()) {
            row(page, "evaluated on", summary.path("val_sample").path("text").asString(""));
        }
        row(
                page,
                "perplexity",
                format(summary.path("final_perplexity")) + ", best " + format(summary.path("best_perplexity")));
        if (summary.path("skipped_steps").asLong(0) > 0) {
            row(page, "steps skipped, not finite", summary.path("skipped_steps").asString(""));
        }
        for (String split : List.of("train_data", "val_data")) {
            String lost = summary.path(split).path("note").asString("");
            if (!lost.isEmpty()) {
                row(page, split.equals("train_data") ? "left out of training" : "left out of validation", lost);
            }
        }
        page.append("</table>");
        chart(
                page,
                "Loss",
                List.of(
                        new Curve("training", "#9db8e8", loss),
                        new Curve("training, smoothed", "#1f5fd0", smooth(loss)),
                        new Curve("validation", "#d2571b", points(lines, "eval_loss"))));
        chart(page, "Learning rate", List.of(new Curve("learning rate", "#1f5fd0", points(lines, "lr"))));
        chart(
                page,
                "Gradient norm, before clipping",
                List.of(new Curve("norm", "#1f5fd0", points(lines, "grad_norm"))));
        chart(page, "Tokens per second", List.of(new Curve("tokens/s", "#1f5fd0", points(lines, "tokens_per_second"))));
        chart(
                page,
                "Memory, MiB",
                List.of(
                        new Curve("tensors", "#1f5fd0", scaled(points(lines, "memory_bytes"), 0x1p-20)),
                        new Curve("process", "#d2571b", scaled(points(lines, "resident_bytes"), 0x1p-20))));
        samples(page, run.resolve(Samples.FILE));
        page.append("""
                <script>
                for(const s of document.querySelectorAll('svg[data-x]')){const x=JSON.parse(s.dataset.x),o=s.nextElementSibling;
                s.addEventListener('pointermove',e=>{const r=s.getBoundingClientRect(),u=(e.clientX-r.left)/r.width*860;
                let t=[];for(const c of x){let b=null;for(const p of c.p)if(!b||Math.abs(p[2]-u)<Math.abs(b[2]-u))b=p;
                if(b)t.push(c.n+' '+b[1].toPrecision(5)+' (step '+b[0]+')')}o.textContent=t.join(' · ')});
                s.addEventListener('pointerleave',()=>o.textContent='\\u00a0')}
                </script></body></html>
                """);
        return page.toString();
    }

    private static void row(StringBuilder page, String name, String value) {
        page.append("<tr><td>")
                .append(name)
                .append("</td><td>")
                .append(escape(value))
                .append("</td></tr>");
    }

    private static String format(JsonNode node) {
        return node.isNumber() ? String.format(Locale.ROOT, "%.5g", node.doubleValue()) : "—";
    }

    private static List<double[]> points(List<JsonNode> lines, String field) {
        List<double[]> points = new ArrayList<>();
        for (JsonNode line : lines) {
            if (line.path(field).isNumber() && Double.isFinite(line.path(field).doubleValue())) {
                points.add(new double[] {
                    line.path("step").doubleValue(), line.path(field).doubleValue()
                });
            }
        }
        return points;
    }

    private static List<double[]> scaled(List<double[]> points, double by) {
        return points.stream().map(p -> new double[] {p[0], p[1] * by}).toList();
    }

    /** An exponential mean over a twentieth of the run. */
    private static List<double[]> smooth(List<double[]> points) {
        List<double[]> smoothed = new ArrayList<>();
        double keep = 1 - 1 / Math.max(1, points.size() / 20.0);
        double sum = 0;
        double weight = 0;
        for (double[] point : points) {
            sum = keep * sum + point[1];
            weight = keep * weight + 1;
            smoothed.add(new double[] {point[0], sum / weight});
        }
        return smoothed;
    }

    private static List<double[]> thinned(List<double[]> points) {
        int every = (points.size() + MOST_POINTS - 1) / MOST_POINTS;
        List<double[]> kept = new ArrayList<>();
        for (int i = 0; i < points.size(); i += Math.max(1, every)) {
            kept.add(points.get(i));
        }
        if (every > 1) {
            kept.add(points.getLast());
        }
        return kept;
    }

    private static void chart(StringBuilder page, String title, List<Curve> all) {
        List<Curve> curves = all.stream()
                .filter(curve -> !curve.points().isEmpty())
                .map(curve -> new Curve(curve.name(), curve.colour(), thinned(curve.points())))
                .toList();
        if (curves.isEmpty()) {
            return;
        }
        double[] x = range(curves, 0);
        double[] y = range(curves, 1);
        double margin = 0.05 * (y[1] - y[0]);
        y[0] = y[0] >= 0 ? Math.max(0, y[0] - margin) : y[0] - margin;
        y[1] += margin;
        page.append("<h2>").append(escape(title)).append("</h2><svg viewBox=\"0 0 860 240\" data-x='[");
        StringBuilder drawn = new StringBuilder();
        for (double tick : ticks(y[0], y[1], 5)) {
            double at = place(tick, y, HEIGHT - BOTTOM, TOP);
            drawn.append(String.format(
                    Locale.ROOT,
                    "<line class=grid x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                            + "<text class=axis x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
                    LEFT,
                    WIDTH,
                    at,
                    at,
                    LEFT - 8,
                    at + 4,
                    label(tick)));
        }
        for (double tick : ticks(x[0], x[1], 8)) {
            drawn.append(String.format(
                    Locale.ROOT,
                    "<text class=axis x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>",
                    place(tick, x, LEFT, WIDTH - 12),
                    HEIGHT - 8,
                    label(tick)));
        }
        for (int c = 0; c < curves.size(); c++) {
            page.append(c == 0 ? "" : ",")
                    .append("{\"n\":\"")
                    .append(curves.get(c).name())
                    .append("\",\"p\":[");
            StringBuilder line = new StringBuilder();
            List<double[]> points = curves.get(c).points();
            for (int i = 0; i < points.size(); i++) {
                double px = place(points.get(i)[0], x, LEFT, WIDTH - 12);
                double py = place(points.get(i)[1], y, HEIGHT - BOTTOM, TOP);
                line.append(String.format(Locale.ROOT, "%.1f,%.1f ", px, py));
                page.append(String.format(
                        Locale.ROOT, "%s[%.0f,%.6g,%.1f]", i == 0 ? "" : ",", points.get(i)[0], points.get(i)[1], px));
            }
            page.append("]}");
            drawn.append("<polyline fill=\"none\" stroke-width=\"1.6\" stroke=\"")
                    .append(curves.get(c).colour())
                    .append("\" points=\"")
                    .append(line.toString().strip())
                    .append("\"/>");
            if (points.size() < 40) {
                for (String point : line.toString().strip().split(" ")) {
                    String[] at = point.split(",");
                    drawn.append("<circle r=\"2.5\" fill=\"")
                            .append(curves.get(c).colour())
                            .append("\" cx=\"")
                            .append(at[0])
                            .append("\" cy=\"")
                            .append(at[1])
                            .append("\"/>");
                }
            }
        }
        page.append("]'>").append(drawn).append("</svg><div class=small>&nbsp;</div><div class=key>");
        curves.forEach(curve -> page.append("<i style=\"background:")
                .append(curve.colour())
                .append("\"></i>")
                .append(escape(curve.name())));
        page.append("</div>");
    }

    private static double[] range(List<Curve> curves, int axis) {
        double least = Double.POSITIVE_INFINITY;
        double most = Double.NEGATIVE_INFINITY;
        for (Curve curve : curves) {
            for (double[] point : curve.points()) {
                least = Math.min(least, point[axis]);
                most = Math.max(most, point[axis]);
            }
        }
        return least == most
                ? new double[] {least - 0.5 * Math.abs(least) - 1e-9, most + 0.5 * Math.abs(most) + 1e-9}
                : new double[] {least, most};
    }

    private static double place(double value, double[] range, double from, double to) {
        return from + (value - range[0]) / (range[1] - range[0]) * (to - from);
    }

    /** Round numbers in a range, about as many as asked. */
    private static List<Double> ticks(double from, double to, int count) {
        double rough = (to - from) / count;
        double power = Math.pow(10, Math.floor(Math.log10(rough)));
        double step = power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : rough / power < 7.5 ? 5 : 10);
        List<Double> ticks = new ArrayList<>();
        for (long i = (long) Math.ceil(from / step); i * step <= to + 1e-9 * step; i++) {
            ticks.add(i * step);
        }
        return ticks;
    }

    private static String label(double value) {
        if (value == 0) {
            return "0";
        }
        double size = Math.abs(value);
        if (size >= 1e6 || size < 1e-3) {
            return String.format(Locale.ROOT, "%.1e", value);
        }
        String text = String.format(Locale.ROOT, size >= 100 ? "%.0f" : "%.4f", value);
        return text.contains(".") ? text.replaceAll("0+$", "").replaceAll("\\.$", "") : text;
    }

    private static void samples(StringBuilder page, Path file) {
        if (!Files.exists(file)) {
            return;
        }
        page.append("<h2>Samples: continuations of held-out text</h2>");
        for (JsonNode sample : Jackson.JSON.readTree(file).path("samples")) {
            page.append("<pre>")
                    .append(escape(sample.path("prompt").asString("")))
                    .append("</pre><div class=pair>");
            for (String when : List.of("before", "after")) {
                page.append("<div><span class=small>").append(when).append(" training</span><pre>");
                page.append(escape(sample.path(when).asString("—"))).append("</pre></div>");
            }
            page.append("</div>");
        }
    }

    private static String escape(String text) {
        return text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace("'", "&#39;");
    }
}
