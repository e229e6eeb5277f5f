package dev.starforge.train.plan;

import dev.starforge.text.json.Jackson;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Time of training steps by operation, with the time of an unprofiled step for comparison.
 *
 * @param steps number of profiled steps
 * @param stepSeconds time of an unprofiled step
 * @param peak peak FLOP/s of products on the device
 * @param rows longest first
 */
public record StepProfile(int steps, double stepSeconds, double peak, List<Row> rows) {
    private static final double SHOWN = 0.002;

    /** Columns for the name of an operation. */
    private static final int NAME = 36;

    public StepProfile {
        rows = List.copyOf(rows);
    }

    /**
     * One kind of operation.
     *
     * @param flops of its products
     */
    public record Row(String operation, long calls, double seconds, double flops) {
        Row plus(Row other) {
            return new Row(operation, calls + other.calls, seconds + other.seconds, flops + other.flops);
        }

        private double rate() {
            return seconds == 0 ? 0 : flops / seconds;
        }
    }

    private double seconds() {
        return rows.stream().mapToDouble(Row::seconds).sum();
    }

    /** Share of the peak FLOP/s that the products of a step would reach if they took the whole step. */
    private double share() {
        return rows.stream().mapToDouble(Row::flops).sum() / steps / stepSeconds / peak;
    }

    /** A table for terminals, without negligible rows. */
    public List<String> table() {
        List<String> lines = new ArrayList<>();
        lines.add(String.format(
                Locale.ROOT,
                "a step takes %.2f ms; its products use %.0f %% of the peak of %.1f TFLOP/s",
                1e3 * stepSeconds,
                100 * share(),
                peak / 1e12));
        lines.add(String.format(
                Locale.ROOT,
                "%-36s %7s %10s %6s %9s %6s",
                "operation",
                "calls",
                "ms/step",
                "share",
                "TFLOP/s",
                "peak"));
        for (Row row : rows) {
            if (row.seconds < SHOWN * seconds()) {
                continue;
            }
            String rate = row.flops == 0
                    ? ""
                    : String.format(Locale.ROOT, "%9.1f %5.0f%%", row.rate() / 1e12, 100 * row.rate() / peak);
            lines.add(String.format(
                            Locale.ROOT,
                            "%-36s %7d %10.3f %5.1f%% %s",
                            cut(row.operation),
                            row.calls / steps,
                            1e3 * row.seconds / steps,
                            100 * row.seconds / seconds(),
                            rate)
                    .stripTrailing());
        }
        lines.add(String.format(Locale.ROOT, "%-36s %7s %10.3f", "all operations", "", 1e3 * seconds() / steps));
        return lines;
    }

    /** Cuts a long name, so that a line fits a terminal; {@link #json} has it whole. */
    private static String cut(String operation) {
        return operation.length() <= NAME ? operation : operation.substring(0, NAME - 1) + "…";
    }

    public ObjectNode json() {
        ObjectNode root = Jackson.object();
        root.put("steps", steps)
                .put("step_ms", 1e3 * stepSeconds)
                .put("peak_tflop_s", peak / 1e12)
                .put("share_of_peak", share());
        ArrayNode all = root.putArray("operations");
        for (Row row : rows) {
            all.addObject()
                    .put("operation", row.operation)
                    .put("calls", row.calls / steps)
                    .put("ms", 1e3 * row.seconds / steps)
                    .put("tflop_s", row.rate() / 1e12);
        }
        return root;
    }
}
