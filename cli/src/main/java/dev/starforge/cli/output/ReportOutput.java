package dev.starforge.cli.output;

import dev.starforge.text.json.Jackson;
import java.io.PrintWriter;
import tools.jackson.databind.node.ObjectNode;

/** Prints the report of a command as JSON, or one line per field. */
public final class ReportOutput {
    private ReportOutput() {}

    public static void json(PrintWriter out, ObjectNode report) {
        out.println(Jackson.indented(report));
        out.flush();
    }

    static void fields(PrintWriter out, ObjectNode report) {
        report.properties()
                .forEach(entry ->
                        out.println(entry.getKey() + ": " + entry.getValue().asString()));
        out.flush();
    }

    public static void print(PrintWriter out, ObjectNode report, boolean json) {
        if (json) {
            json(out, report);
        } else {
            fields(out, report);
        }
    }
}
