package dev.starforge.model.convert;

import dev.starforge.model.gguf.GgufWriter;
import dev.starforge.tensor.codec.BlockFormat;
import java.util.Locale;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * The quantization error of a tensor. Errors are relative: the norm of the difference divided by the norm of the
 * original, for the whole tensor and for its worst row.
 *
 * @param wanted the type for rows that divide into whole blocks
 * @param worstRow the row with the largest error; 0 if all errors are 0
 * @param importance true if an importance matrix was used
 */
public record QuantizationReport(
        String name,
        BlockFormat from,
        BlockFormat wanted,
        BlockFormat to,
        long bytes,
        double error,
        long worstRow,
        double worstRowError,
        boolean importance) {

    /** Returns the report of a tensor that is copied unchanged. */
    static QuantizationReport unchanged(GgufWriter.GgufEntry entry) {
        return new QuantizationReport(
                entry.name(), entry.format(), entry.format(), entry.format(), entry.bytes(), 0, 0, 0, false);
    }

    /** Returns true if another type was used because rows do not divide into whole blocks of the wanted type. */
    public boolean fellBack() {
        return wanted != to;
    }

    /** Returns the report as a JSON object on one line. */
    public String json() {
        ObjectNode json = new JsonMapper().createObjectNode();
        json.put("name", name).put("from", text(from)).put("type", text(to)).put("bytes", bytes);
        json.put("relative_error", error).put("worst_row", worstRow).put("worst_row_relative_error", worstRowError);
        if (importance) {
            json.put("importance", true);
        }
        if (fellBack()) {
            json.put("instead_of", text(wanted));
        }
        return json.toString();
    }

    /** Parses the result of {@link #json}. */
    static QuantizationReport of(String text) {
        JsonNode json = new JsonMapper().readTree(text);
        String type = json.path("type").stringValue();
        return new QuantizationReport(
                json.path("name").stringValue(),
                format(json.path("from").stringValue()),
                format(json.path("instead_of").stringValue(type)),
                format(type),
                json.path("bytes").longValue(),
                json.path("relative_error").doubleValue(),
                json.path("worst_row").longValue(),
                json.path("worst_row_relative_error").doubleValue(),
                json.path("importance").booleanValue(false));
    }

    private static String text(BlockFormat format) {
        return format.name().toLowerCase(Locale.ROOT);
    }

    private static BlockFormat format(String text) {
        return BlockFormat.valueOf(text.toUpperCase(Locale.ROOT));
    }
}
