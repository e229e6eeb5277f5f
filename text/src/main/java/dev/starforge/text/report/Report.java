package dev.starforge.text.report;

import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;

/**
 * A report: one HTML file that needs nothing from anywhere. It carries its numbers as JSON, the one look that all reports and
 * the page have, and a script that lays the numbers out; so a report is what a script makes of data, and the page that shows
 * a live run is the same script with newer data. Its own policy forbids it to load anything.
 *
 * <p>This is the module that all writers of reports may use; it knows nothing of what they report.
 */
public final class Report {
    /** The files of the look: a style sheet, and the functions that the scripts are written with. */
    public static final String STYLE = "look.css";

    public static final String FUNCTIONS = "look.js";

    private Report() {}

    /**
     * A page that shows data.
     *
     * @param script text of a script that reads the element {@code data} and fills the element {@code main}
     */
    public static String page(String title, JsonNode data, String script) {
        return """
            <!doctype html>
            <html lang="en">
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
            <title>%s</title>
            <style>
            %s</style>
            <main id="main"></main>
            <script type="application/json" id="data">%s</script>
            <script>
            %s</script>
            <script>
            %s</script>
            </html>
            """.formatted(escaped(title), look(STYLE), json(data), look(FUNCTIONS), script);
    }

    /** A file of the look. */
    public static String look(String name) {
        return read(name, Report.class.getResourceAsStream(name));
    }

    /**
     * The text of a resource, to its end.
     *
     * @param in opened by its owner: a module keeps its resources to itself
     */
    public static String read(String name, @Nullable InputStream in) {
        if (in == null) {
            throw new IllegalStateException("report: the resource " + name + " is not part of the program");
        }
        try (in) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    /** Text that data holds may not end the script that the data stands in. */
    private static String json(JsonNode data) {
        return Jackson.JSON.writeValueAsString(data).replace("<", "\\u003c");
    }

    private static String escaped(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;");
    }
}
