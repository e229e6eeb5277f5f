package dev.starforge.text.report;

import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;

/**
 * A self-contained HTML report. It contains its data as JSON, the style sheet that all reports and the live page share,
 * and a script that draws the data. A live page uses the same script with newer data. The page's content security
 * policy forbids loading anything.
 *
 * <p>All writers of reports use this module; it does not depend on their content.
 */
public final class Report {
    /** Shared resources: the style sheet, and the functions that report scripts use. */
    public static final String STYLE = "look.css";

    public static final String FUNCTIONS = "look.js";

    private Report() {}

    /**
     * Renders a page that shows data.
     *
     * @param script a script that reads the element {@code data} and fills the element {@code main}
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

    /** Reads a shared resource. */
    public static String look(String name) {
        return read(name, Report.class.getResourceAsStream(name));
    }

    /**
     * Reads a resource as text.
     *
     * @param in the resource, opened by the module that contains it
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

    /** Escapes data so that it cannot end the script element that contains it. */
    private static String json(JsonNode data) {
        return Jackson.JSON.writeValueAsString(data).replace("<", "\\u003c");
    }

    private static String escaped(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;");
    }
}
