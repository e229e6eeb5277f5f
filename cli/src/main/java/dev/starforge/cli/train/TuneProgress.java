package dev.starforge.cli.train;

import dev.starforge.cli.model.EmbeddedModel;
import dev.starforge.cli.output.DatasetProgress;
import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.output.Terminal;
import dev.starforge.cli.process.GracefulStop;
import dev.starforge.data.dataset.BuildProgress;
import dev.starforge.train.Durations;
import dev.starforge.train.checkpoint.RunEvents;
import dev.starforge.train.tune.CountFormat;
import dev.starforge.train.tune.TuneEvents;
import dev.starforge.train.tune.TunePlan;
import dev.starforge.train.tune.TuneStart;
import dev.starforge.train.tune.TuneStep;
import java.io.Console;
import java.io.PrintWriter;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/** Prints the progress of {@code tune}; with JSON, only warnings on standard error. */
public final class TuneProgress implements TuneEvents {
    private static final int LINES_EVERY = 25;

    private final PrintWriter out;
    private final PrintWriter err;
    private final boolean json;
    private final boolean yes;
    private boolean asked;
    private Optional<DatasetProgress> building = Optional.empty();

    public TuneProgress(PrintWriter out, PrintWriter err, boolean json, boolean yes) {
        this.out = out;
        this.err = err;
        this.json = json;
        this.yes = yes;
    }

    private void say(String line) {
        if (!json) {
            out.println(line);
            out.flush();
        }
    }

    @Override
    public void plan(TunePlan plan) {
        String languages = plan.facts().lines().entrySet().stream()
                .sorted(Map.Entry.<String, Long>comparingByValue().reversed())
                .limit(3)
                .map(entry -> entry.getKey() + " " + CountFormat.text(entry.getValue()) + " lines")
                .collect(Collectors.joining(", "));
        say("Tune " + Escaped.of(plan.base()) + " (" + CountFormat.text(plan.parameters()) + " parameters) on "
                + Escaped.of(plan.repository()));
        wrapped("  history  ", plan.facts().commits() + " commits, " + languages);
        wrapped("  device   ", Escaped.of(plan.device()));
        wrapped(
                "  speed    ",
                String.format(
                        Locale.ROOT,
                        "about %s tokens/s in training, which needs %.1f GiB of memory",
                        CountFormat.text(plan.tokensPerSecond()),
                        plan.memoryBytes() / 0x1p30));
        if (plan.base().equals(EmbeddedModel.NAME)) {
            wrapped("  ", EmbeddedModel.NOTE);
        }
        plan.notes().forEach(note -> wrapped("  ", Escaped.of(note)));
        for (TuneStep step : TuneStep.values()) {
            Double seconds = plan.seconds().get(step);
            say(String.format(
                    Locale.ROOT,
                    "  %d %-9s %-46s %s",
                    step.ordinal() + 1,
                    step.label(),
                    what(step, plan.start()),
                    seconds == null
                            ? "see below"
                            : seconds == 0 ? "done before" : "about " + Durations.text(Math.ceil(seconds))));
        }
        say("output: " + Escaped.of(plan.output()));
    }

    /** Prints text that is broken between words if the terminal is narrow. */
    private void wrapped(String label, String text) {
        Terminal.wrap(label, text, Terminal.textWidth()).forEach(this::say);
    }

    private static String what(TuneStep step, TuneStart start) {
        return switch (step) {
            case DATASET -> "tokenize the history, hold out newest commits";
            case TRAIN ->
                switch (start) {
                    case NEW_COMMITS -> "continue the adapter on new commits";
                    case LONGER -> "continue the adapter, newest commits first";
                    case FIRST, RESUME, RESTART, OTHER_SETTINGS, UP_TO_DATE ->
                        "train a LoRA adapter, newest commits first";
                };
            case EVALUATE -> "compare base and tuned in bits per byte";
            case MERGE -> "merge the adapter into the base, and check";
            case QUANTIZE -> "write a Q8_0 GGUF file";
        };
    }

    @Override
    public boolean confirm(double seconds) {
        if (yes) {
            return true;
        }
        String length = "this will take about " + Durations.text(seconds);
        Console console = System.console();
        if (console == null || !Terminal.isTerminal()) {
            err.println("starforge: " + length + "; pass --yes to confirm, or fewer --minutes");
            err.flush();
            return false;
        }
        asked = true;
        String answer = console.readLine("%s. Continue? [y/N] ", length);
        return answer != null && answer.strip().toLowerCase(Locale.ROOT).startsWith("y");
    }

    /** Returns true if the user was asked for confirmation. */
    public boolean asked() {
        return asked;
    }

    @Override
    public void begin(TuneStep step) {
        say(String.format("%n%d/%d %s", step.ordinal() + 1, TuneStep.values().length, step.label()));
    }

    @Override
    public void done(TuneStep step, String what, double seconds) {
        building.ifPresent(DatasetProgress::finish);
        building = Optional.empty();
        wrapped("  ", Escaped.of(what) + " (" + Durations.text(seconds) + ")");
    }

    @Override
    public void alreadyDone(TuneStep step) {
        say(String.format("%n%d/%d %s: already done", step.ordinal() + 1, TuneStep.values().length, step.label()));
    }

    @Override
    public void note(String text) {
        wrapped("  ", Escaped.of(text));
    }

    @Override
    public void fallback(String text) {
        err.println(text);
        err.flush();
    }

    @Override
    public BuildProgress dataset() {
        DatasetProgress progress = new DatasetProgress(err, Terminal.isTerminal() && !json, System::nanoTime);
        building = Optional.of(progress);
        return progress;
    }

    @Override
    public RunEvents training() {
        return json ? RunEvents.SILENT : new RunProgress(out, Terminal.isTerminal(), false, LINES_EVERY);
    }

    @Override
    public Watch stoppable(Runnable stop) {
        GracefulStop interrupt = new GracefulStop();
        interrupt.onSignal(stop);
        return interrupt::close;
    }
}
