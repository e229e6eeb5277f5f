package dev.starforge.cli.train;

import dev.starforge.cli.output.ProgressBar;
import dev.starforge.tensor.device.Usage;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.Durations;
import dev.starforge.train.checkpoint.RunEvents;
import dev.starforge.train.corpus.DataFacts;
import dev.starforge.train.plan.StepProfile;
import java.io.PrintWriter;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tools.jackson.databind.node.ObjectNode;

/** Prints the progress of a training run: a bar on a terminal, otherwise lines or JSON. */
public final class RunProgress implements RunEvents {
    private static final double TERMINAL_SECONDS = 0.5;
    private static final double PIPE_SECONDS = 10;

    private final ProgressBar bar;
    private final boolean json;
    private final int every;
    private long tokens = -1;
    private double seconds;
    private long firstStep;
    private double evaluationTold;

    public RunProgress(PrintWriter out, boolean terminal, boolean json, int every) {
        this(new ProgressBar(out, terminal && !json), json, every);
    }

    RunProgress(ProgressBar bar, boolean json, int every) {
        this.bar = bar;
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
            ObjectNode line = Jackson.object();
            line.put("event", "step")
                    .put("step", step.step())
                    .put("steps", step.steps())
                    .put("epoch", step.epoch());
            line.put("tokens", step.tokens()).put("loss_tokens", step.lossTokens());
            line.put("loss", step.loss()).put("lr", step.learningRate());
            line.put("grad_norm", step.gradientNorm()).put("tokens_per_second", step.tokensPerSecond());
            bar.print(line.toString());
            return;
        }
        String count = "step " + step.step() + "/" + step.steps();
        String loss = String.format(Locale.ROOT, "loss %.4f", step.loss());
        String rate = String.format(Locale.ROOT, "lr %.2e", step.learningRate());
        String norm = String.format(Locale.ROOT, "norm %.3f", step.gradientNorm());
        String throughput = String.format(Locale.ROOT, "%.0f tokens/s", step.tokensPerSecond());
        String speed = (timed == 0 ? "?" : String.format(Locale.ROOT, "%.2f", timed / seconds)) + " steps/s";
        String remaining = Durations.text(left) + " left";
        String gpu = usage(step.usage());
        if (bar.isTerminal()) {
            bar.draw("train", step.step(), step.steps(), count, loss, remaining, throughput, rate, norm, speed, gpu);
            return;
        }
        String text = Stream.of(count, loss, rate, norm, throughput, speed, gpu, remaining)
                .filter(part -> !part.isEmpty())
                .collect(Collectors.joining("  "));
        if (step.step() % every == 0 || step.step() == 1 || step.step() == step.steps()) {
            bar.print(text);
        }
    }

    /** GPU utilization and memory, if the driver reports them. */
    private static String usage(Usage usage) {
        return usage.memoryBytes() < 0 || usage.utilization() < 0
                ? ""
                : String.format(
                        Locale.ROOT, "GPU %.0f %% %.1f GB", 100 * usage.utilization(), usage.memoryBytes() / 1e9);
    }

    @Override
    public void data(String split, DataFacts facts) {
        if (json) {
            ObjectNode line = Jackson.object().put("event", "data").put("split", split);
            line.put("documents", facts.documents())
                    .put("loss_tokens", facts.lossTokens())
                    .put("tokens", facts.tokens());
            line.put("divided_documents", facts.divided())
                    .put("dropped_documents", facts.dropped())
                    .put("dropped_loss_tokens", facts.droppedLossTokens())
                    .put("all_documents", facts.all().documents())
                    .put("all_tokens", facts.all().tokens());
            bar.print(line.toString());
        } else {
            bar.print(split + ": " + facts.describeUsed());
            if (!facts.describeUnused().isEmpty()) {
                bar.print(split + ": " + facts.describeUnused());
            }
        }
        if (!facts.describeDropped().isEmpty()) {
            note(split + ": " + facts.describeDropped());
        }
    }

    /** Updates the bar on a terminal, otherwise prints a line every few seconds; a short evaluation prints nothing. */
    @Override
    public void evaluating(long step, long tokens, long all, double seconds) {
        if (seconds < evaluationTold) {
            evaluationTold = 0;
        }
        if (tokens >= all || seconds - evaluationTold < (bar.isTerminal() ? TERMINAL_SECONDS : PIPE_SECONDS)) {
            return;
        }
        evaluationTold = seconds;
        double left = seconds / tokens * (all - tokens);
        if (json) {
            bar.print(Jackson.object()
                    .put("event", "evaluating")
                    .put("step", step)
                    .put("tokens", tokens)
                    .put("of", all)
                    .put("seconds_left", left)
                    .toString());
            return;
        }
        String remaining = Durations.text(left) + " left";
        String count = String.format(Locale.ROOT, "%,d of %,d tokens", tokens, all);
        String throughput = String.format(Locale.ROOT, "%.0f tokens/s", tokens / seconds);
        if (bar.isTerminal()) {
            bar.draw("evaluate", tokens, all, count, remaining, throughput);
        } else {
            bar.print("evaluation at step " + step + "  " + count + "  " + throughput + "  " + remaining);
        }
    }

    @Override
    public void evaluated(long step, double loss, boolean best) {
        if (json) {
            bar.print(Jackson.object()
                    .put("event", "evaluation")
                    .put("step", step)
                    .put("loss", loss)
                    .put("perplexity", Math.exp(loss))
                    .put("best", best)
                    .toString());
        } else {
            bar.print(String.format(
                    Locale.ROOT,
                    "step %d  validation loss %.4f  perplexity %.3f%s",
                    step,
                    loss,
                    Math.exp(loss),
                    best ? "  (best)" : ""));
        }
    }

    public void profile(StepProfile profile) {
        if (json) {
            bar.print(profile.json().put("event", "profile").toString());
        } else {
            profile.table().forEach(bar::print);
        }
    }

    @Override
    public void note(String text) {
        bar.print(json ? Jackson.object().put("event", "note").put("text", text).toString() : text);
    }
}
