package dev.starforge.train.eval;

import dev.starforge.text.report.Report;
import tools.jackson.databind.JsonNode;

/** An evaluation as a report for people. */
public final class EvaluationPage {
    private static final String SCRIPT = "eval.js";

    private EvaluationPage() {}

    /** @param result what {@link Evaluation#run} gave */
    public static String render(JsonNode result) {
        return Report.page("Evaluation", result, Report.read(SCRIPT, EvaluationPage.class.getResourceAsStream(SCRIPT)));
    }
}
