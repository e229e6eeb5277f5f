package dev.starforge.train.run;

import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/** Progress of a run, as saved in a checkpoint next to the weights and the optimizer state. Owned by the run. */
final class RunState {
    long step;
    int epoch;
    int position;
    long tokens;
    long lossTokens;
    int sequencesAtATime;
    double bestLoss = Double.POSITIVE_INFINITY;
    long bestStep;
    int withoutGain;
    int notFinite;
    long evaluatedAt = -1;
    double lastEvaluation = Double.NaN;
    double trainingSeconds;
    double evaluationSeconds;
    double elapsedSeconds;

    void write(ObjectNode node) {
        node.put("step", step);
        node.put("epoch", epoch);
        node.put("position", position);
        node.put("tokens", tokens);
        node.put("loss_tokens", lossTokens);
        node.put("sequences_at_a_time", sequencesAtATime);
        node.put("best_loss", bestLoss);
        node.put("best_step", bestStep);
        node.put("evaluations_without_gain", withoutGain);
        node.put("steps_not_finite", notFinite);
        node.put("evaluated_at", evaluatedAt);
        node.put("last_evaluation", lastEvaluation);
        node.put("seconds", trainingSeconds);
        node.put("evaluation_seconds", evaluationSeconds);
        node.put("elapsed_seconds", elapsedSeconds);
    }

    void read(JsonNode node) {
        step = node.path("step").longValue();
        epoch = node.path("epoch").intValue();
        position = node.path("position").intValue();
        tokens = node.path("tokens").longValue();
        lossTokens = node.path("loss_tokens").longValue(0);
        sequencesAtATime = node.path("sequences_at_a_time").intValue();
        bestLoss = number(node.path("best_loss"));
        bestStep = node.path("best_step").longValue();
        withoutGain = node.path("evaluations_without_gain").intValue();
        notFinite = node.path("steps_not_finite").intValue();
        evaluatedAt = node.path("evaluated_at").longValue();
        lastEvaluation = number(node.path("last_evaluation"));
        trainingSeconds = node.path("seconds").doubleValue();
        evaluationSeconds = node.path("evaluation_seconds").doubleValue(0);
        elapsedSeconds = node.path("elapsed_seconds").doubleValue(trainingSeconds);
    }

    /** Reads a number; Jackson writes NaN and infinities as text. */
    private static double number(JsonNode node) {
        return node.isNumber() ? node.doubleValue() : Double.parseDouble(node.asString("NaN"));
    }
}
