package dev.starforge.cli.output;

import dev.starforge.data.dataset.BuildProgress;
import dev.starforge.train.Durations;
import java.io.PrintWriter;
import java.util.Locale;
import java.util.function.LongSupplier;

/** Prints the stages of a dataset: a progress bar on a terminal, otherwise a line per stage and every ten seconds. */
public final class DatasetProgress implements BuildProgress {
    private static final long REDRAW = 100_000_000;
    private static final long REPEAT = 10_000_000_000L;

    private final ProgressBar bar;
    private final LongSupplier nanoTime;
    private String stage = "";
    private long total;
    private long done;
    private long began;
    private long drawn;

    public DatasetProgress(PrintWriter err, boolean terminal, LongSupplier nanoTime) {
        this(new ProgressBar(err, terminal), nanoTime);
    }

    DatasetProgress(ProgressBar bar, LongSupplier nanoTime) {
        this.bar = bar;
        this.nanoTime = nanoTime;
    }

    @Override
    public void begin(String name, long steps) {
        stage = name;
        total = steps;
        done = 0;
        began = nanoTime.getAsLong();
        drawn = began;
        if (bar.isTerminal()) {
            draw();
        } else {
            bar.print(steps > 0 ? name + ": " + steps : name);
        }
    }

    @Override
    public void advance() {
        done = total > 0 ? Math.min(done + 1, total) : done + 1;
        long now = nanoTime.getAsLong();
        if (now - drawn > (bar.isTerminal() ? REDRAW : REPEAT)) {
            draw();
        }
    }

    @Override
    public void message(String text) {
        bar.print(text);
    }

    /** Removes the progress bar. */
    public void finish() {
        bar.clear();
    }

    private void draw() {
        drawn = nanoTime.getAsLong();
        if (bar.isTerminal()) {
            bar.draw(stage, done, total, done + "/" + total + " " + pace());
        } else {
            bar.print(String.format(Locale.ROOT, "%s: %d of %d, %s", stage, done, total, pace()));
        }
    }

    private String pace() {
        double seconds = (nanoTime.getAsLong() - began) / 1e9;
        double rate = done / seconds;
        return done == 0
                ? ""
                : String.format(
                        Locale.ROOT,
                        rate < 10 ? "%.1f/s, %s left" : "%.0f/s, %s left",
                        rate,
                        Durations.text(seconds * (total - done) / done));
    }
}
