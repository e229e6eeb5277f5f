package dev.starforge.train.eval;

import dev.starforge.text.report.Report;
import tools.jackson.databind.JsonNode;

/** Renders an evaluation as an HTML report. */
public final class EvaluationPage {
    private static final String SCRIPT = "eval.js";

    private EvaluationPage() {}

    /** @param result the result of {@link Evaluation#run} */
    public static String render(JsonNode result) {
        return Report.page("Evaluation", result, Report.read(SCRIPT, EvaluationPage.class.getResourceAsStream(SCRIPT)));
    }
}
