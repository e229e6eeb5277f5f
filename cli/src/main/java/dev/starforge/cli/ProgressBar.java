package dev.starforge.cli;

import dev.starforge.data.dataset.Progress;
import java.io.PrintWriter;
import java.util.Locale;
import java.util.function.LongSupplier;

/**
 * Progress as a person wants it: a bar with rate and time left on a terminal; elsewhere a line for each stage, and one every
 * ten seconds while it lasts.
 */
final class ProgressBar implements Progress {
    private static final int WIDTH = 30;
    private static final long REDRAW = 100_000_000;
    private static final long REPEAT = 10_000_000_000L;

    private final PrintWriter err;
    private final boolean terminal;
    private final LongSupplier nanoTime;
    private String stage = "";
    private long total;
    private long done;
    private long began;
    private long drawn;

    ProgressBar(PrintWriter err, boolean terminal, LongSupplier nanoTime) {
        this.err = err;
        this.terminal = terminal;
        this.nanoTime = nanoTime;
    }

    @Override
    public void begin(String name, long steps) {
        finish();
        stage = name;
        total = steps;
        done = 0;
        began = nanoTime.getAsLong();
        drawn = began;
        if (terminal) {
            draw();
        } else {
            print(steps > 0 ? name + ": " + steps : name);
        }
    }

    @Override
    public void advance() {
        done = total > 0 ? Math.min(done + 1, total) : done + 1;
        long now = nanoTime.getAsLong();
        if (now - drawn > (terminal ? REDRAW : REPEAT)) {
            draw();
        }
    }

    @Override
    public void say(String message) {
        clear();
        print(message);
    }

    private void print(String line) {
        err.println(line);
        err.flush();
    }

    /** Leaves the terminal as it was. */
    void finish() {
        clear();
        err.flush();
    }

    private void clear() {
        if (terminal) {
            err.print("\r\u001b[K");
        }
    }

    private void draw() {
        drawn = nanoTime.getAsLong();
        if (terminal) {
            err.print("\r\u001b[K" + line());
            err.flush();
        } else {
            print(String.format(Locale.ROOT, "%s: %d of %d, %s", stage, done, total, pace()));
        }
    }

    private String line() {
        if (total == 0) {
            return stage + "…";
        }
        int filled = (int) (WIDTH * done / total);
        return String.format(
                Locale.ROOT,
                "%-10s %s%s %3d%% %d/%d %s",
                stage,
                "█".repeat(filled),
                "░".repeat(WIDTH - filled),
                100 * done / total,
                done,
                total,
                pace());
    }

    private String pace() {
        double seconds = (nanoTime.getAsLong() - began) / 1e9;
        double rate = done / seconds;
        return done == 0
                ? ""
                : String.format(Locale.ROOT, rate < 10 ? "%.1f/s, %s left" : "%.0f/s, %s left", rate, left(seconds));
    }

    private String left(double seconds) {
        long rest = Math.round(seconds * (total - done) / done);
        return rest < 60 ? rest + " s" : rest / 60 + " min " + rest % 60 + " s";
    }
}
