package dev.starforge.cli.output;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;

/** Rows of text in aligned columns. */
public final class TextTable {
    private static final String GAP = "  ";

    private TextTable() {}

    /**
     * Aligns the columns. If a line would be wider than {@code width}, the first cell of each row has a line of its own.
     *
     * @param rows of equally many cells, the heads first
     */
    public static List<String> lines(List<List<String>> rows, int width) {
        List<String> lines = aligned(rows);
        if (lines.stream().allMatch(line -> line.length() <= width)) {
            return lines;
        }
        List<String> values =
                aligned(rows.stream().map(row -> row.subList(1, row.size())).toList());
        List<String> stacked = new ArrayList<>();
        for (int i = 0; i < rows.size(); i++) {
            Stream.of(rows.get(i).getFirst(), GAP + values.get(i))
                    .filter(line -> !line.isBlank())
                    .forEach(stacked::add);
        }
        return stacked;
    }

    /** A metric with its confidence interval. Numbers of 10 and more have fewer decimals, so that they are not longer. */
    public static String interval(JsonNode metric, int decimals) {
        double[] values = Stream.of("value", "low", "high")
                .mapToDouble(name -> metric.path(name).doubleValue())
                .toArray();
        double largest = Arrays.stream(values).map(Math::abs).max().orElse(0);
        int digits = (int) Math.log10(Math.max(1, largest));
        String number = "%." + Math.max(0, decimals - digits) + "f";
        return String.format(
                Locale.ROOT, number + " [" + number + ", " + number + "]", values[0], values[1], values[2]);
    }

    private static List<String> aligned(List<List<String>> rows) {
        List<String> lines = new ArrayList<>();
        for (List<String> row : rows) {
            StringBuilder line = new StringBuilder();
            for (int c = 0; c < row.size(); c++) {
                int column = c;
                int width = rows.stream()
                        .mapToInt(each -> each.get(column).length())
                        .max()
                        .orElse(0);
                line.append(row.get(c))
                        .append(" ".repeat(width - row.get(c).length()))
                        .append(GAP);
            }
            lines.add(line.toString().stripTrailing());
        }
        return lines;
    }
}
