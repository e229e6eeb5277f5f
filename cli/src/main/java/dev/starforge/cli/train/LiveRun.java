package dev.starforge.cli.train;

import dev.starforge.serve.RunPage;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.checkpoint.RunEvents;
import dev.starforge.train.corpus.DataFacts;
import dev.starforge.train.run.ReportPage;
import dev.starforge.train.run.TrainRun;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Clock;
import java.util.UUID;
import java.util.function.LongSupplier;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.JsonNodeFactory;

/** {@code train --ui}: shows the events of a run on a web page and passes them on to the terminal. */
public final class LiveRun implements RunEvents, AutoCloseable {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private final RunPage page;
    private final RunEvents terminal;
    private final LongSupplier nanoTime;
    private final Path output;
    private long began;
    private boolean sampled;
    private boolean ended;

    private LiveRun(RunPage page, RunEvents terminal, LongSupplier nanoTime, Path output) {
        this.page = page;
        this.terminal = terminal;
        this.nanoTime = nanoTime;
        this.output = output;
    }

    /** Starts the page before the model is loaded. */
    public static LiveRun start(int port, RunEvents terminal, LongSupplier nanoTime, String model, Path output)
            throws IOException {
        RunPage page = RunPage.start(
                port,
                ReportPage.script(),
                Clock.systemUTC(),
                () -> UUID.randomUUID().toString());
        page.set("status", JSON.stringNode("loading"));
        page.set("model", JSON.stringNode(model));
        terminal.note("live at " + page.uri());
        return new LiveRun(page, terminal, nanoTime, output);
    }

    /** Called before the first step. */
    public void begin(TrainRun run, String device) {
        began = nanoTime.getAsLong();
        page.follow(ReportPage.metrics(output));
        page.set("device", JSON.stringNode(device));
        page.set("steps", JSON.numberNode(run.steps()));
        page.set("status", JSON.stringNode("running"));
    }

    /** Called after the last step. */
    public void end(TrainRun run, TrainRun.End end) {
        ended = true;
        JsonNode summary = Jackson.JSON.readTree(output.resolve("summary.json"));
        ReportPage.reportData(output, summary, run.nextCommands(end))
                .properties()
                .forEach(each -> page.set(each.getKey(), each.getValue()));
    }

    @Override
    public void step(Step step) {
        if (!sampled) {
            sampled = true;
            page.set("samples", ReportPage.samples(output));
        }
        page.set("evaluating", JSON.numberNode(0));
        page.set("steps", JSON.numberNode(step.steps()));
        page.set("elapsed", JSON.numberNode((nanoTime.getAsLong() - began) * 1e-9));
        terminal.step(step);
    }

    @Override
    public void data(String split, DataFacts facts) {
        terminal.data(split, facts);
    }

    @Override
    public void evaluating(long step, long tokens, long all, double seconds) {
        page.set("evaluating", JSON.numberNode((double) tokens / all));
        terminal.evaluating(step, tokens, all, seconds);
    }

    @Override
    public void evaluated(long step, double loss, boolean best) {
        page.set("evaluating", JSON.numberNode(0));
        terminal.evaluated(step, loss, best);
    }

    @Override
    public void note(String text) {
        terminal.note(text);
    }

    @Override
    public void close() {
        if (!ended) {
            page.set("status", JSON.stringNode("failed"));
        }
        page.close();
    }
}
