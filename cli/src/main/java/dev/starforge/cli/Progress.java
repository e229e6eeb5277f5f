package dev.starforge.cli;

import dev.starforge.train.corpus.DataFacts;
import dev.starforge.train.run.RunEvents;
import java.io.PrintWriter;
import java.util.Locale;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/** A run as people or machines watch it: a bar on a terminal, lines in a pipe, JSON on request. */
final class Progress implements RunEvents {
    private static final int BAR = 24;
    private static final double TERMINAL_SECONDS = 0.5;
    private static final double PIPE_SECONDS = 10;
    private static final String CLEAR = "\r\u001b[K";
    private static final JsonMapper JSON = new JsonMapper();

    private final PrintWriter out;
    private final boolean terminal;
    private final boolean json;
    private final int every;
    private long tokens = -1;
    private double seconds;
    private long firstStep;
    private double evaluationTold;

    Progress(PrintWriter out, boolean terminal, boolean json, int every) {
        this.out = out;
        this.terminal = terminal && !json;
        this.json = json;
        this.every = every;
    }

    @Override
    public void step(Step step) {
        if (tokens < 0) {
            firstStep = step.step();
        }
        double took = tokens < 0 ? 0 : (step.tokens() - tokens) / step.tokensPerSecond();
        tokens = step.tokens();
        seconds += took;
        long timed = step.step() - firstStep;
        double left = timed == 0 ? Double.NaN : seconds / timed * (step.steps() - step.step());
        if (json) {
            ObjectNode line = JSON.createObjectNode();
            line.put("event", "step")
                    .put("step", step.step())
                    .put("steps", step.steps())
                    .put("epoch", step.epoch());
            line.put("tokens", step.tokens()).put("loss_tokens", step.lossTokens());
            line.put("loss", step.loss()).put("lr", step.learningRate());
            line.put("grad_norm", step.gradientNorm()).put("tokens_per_second", step.tokensPerSecond());
            print(line.toString());
            return;
        }
        String text = String.format(
                Locale.ROOT,
                "step %d/%d  loss %.4f  lr %.2e  norm %.3f  %.0f tokens/s  %s left",
                step.step(),
                step.steps(),
                step.loss(),
                step.learningRate(),
                step.gradientNorm(),
                step.tokensPerSecond(),
                duration(left));
        if (terminal) {
            out.print(bar(step.step(), step.steps()) + text);
            out.flush();
        } else if (step.step() % every == 0 || step.step() == 1 || step.step() == step.steps()) {
            print(text);
        }
    }

    @Override
    public void data(String split, DataFacts facts) {
        if (json) {
            ObjectNode line = JSON.createObjectNode().put("event", "data").put("split", split);
            line.put("documents", facts.documents())
                    .put("loss_tokens", facts.lossTokens())
                    .put("tokens", facts.tokens());
            line.put("divided_documents", facts.divided())
                    .put("dropped_documents", facts.dropped())
                    .put("dropped_loss_tokens", facts.droppedLossTokens());
            print(line.toString());
        } else {
            print(split + ": " + facts.used());
        }
        if (!facts.lost().isEmpty()) {
            note(split + ": " + facts.lost());
        }
    }

    /** A bar that moves on a terminal, a line every few seconds elsewhere; a short evaluation says nothing. */
    @Override
    public void evaluating(long step, long tokens, long all, double seconds) {
        if (seconds < evaluationTold) {
            evaluationTold = 0;
        }
        if (tokens >= all || seconds - evaluationTold < (terminal ? TERMINAL_SECONDS : PIPE_SECONDS)) {
            return;
        }
        evaluationTold = seconds;
        double left = seconds / tokens * (all - tokens);
        if (json) {
            print(JSON.createObjectNode()
                    .put("event", "evaluating")
                    .put("step", step)
                    .put("tokens", tokens)
                    .put("of", all)
                    .put("seconds_left", left)
                    .toString());
            return;
        }
        String text = String.format(
                Locale.ROOT,
                "step %d  evaluating  %,d of %,d tokens  %.0f tokens/s  %s left",
                step,
                tokens,
                all,
                tokens / seconds,
                duration(left));
        if (terminal) {
            out.print(bar(tokens, all) + text);
            out.flush();
        } else {
            print(text);
        }
    }

    @Override
    public void evaluated(long step, double loss, boolean best) {
        if (json) {
            print(JSON.createObjectNode()
                    .put("event", "evaluation")
                    .put("step", step)
                    .put("loss", loss)
                    .put("perplexity", Math.exp(loss))
                    .put("best", best)
                    .toString());
        } else {
            print(String.format(
                    Locale.ROOT,
                    "step %d  validation loss %.4f  perplexity %.3f%s",
                    step,
                    loss,
                    Math.exp(loss),
                    best ? "  (best)" : ""));
        }
    }

    @Override
    public void note(String text) {
        print(
                json
                        ? JSON.createObjectNode()
                                .put("event", "note")
                                .put("text", text)
                                .toString()
                        : text);
    }

    private static String bar(long done, long all) {
        int filled = (int) (BAR * done / Math.max(1, all));
        return CLEAR + "[" + "#".repeat(filled) + ".".repeat(BAR - filled) + "] ";
    }

    private void print(String line) {
        out.println(terminal ? CLEAR + line : line);
        out.flush();
    }

    private static String duration(double seconds) {
        if (!(seconds >= 0)) {
            return "?";
        }
        long s = Math.round(seconds);
        return s < 60 ? s + " s" : s < 3600 ? s / 60 + " min" : s / 3600 + " h " + s / 60 % 60 + " min";
    }
}
