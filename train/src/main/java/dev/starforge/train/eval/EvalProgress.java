package dev.starforge.train.eval;

import dev.starforge.train.Durations;
import java.util.Locale;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/** Reports progress and the remaining time of an evaluation every few seconds. */
final class EvalProgress {
    private static final double EVERY = 5;

    private final String what;
    private final String unit;
    private final long all;
    private final LongSupplier nanoTime;
    private final Consumer<String> progress;
    private final long began;
    private double last;

    EvalProgress(String what, String unit, long all, LongSupplier nanoTime, Consumer<String> progress) {
        this.what = what;
        this.unit = unit;
        this.all = all;
        this.nanoTime = nanoTime;
        this.progress = progress;
        this.began = nanoTime.getAsLong();
    }

    void at(long done) {
        double seconds = (nanoTime.getAsLong() - began) * 1e-9;
        if (seconds - last >= EVERY && done < all) {
            last = seconds;
            progress.accept(String.format(
                    Locale.ROOT,
                    "%s: %,d of %,d %s, %s left",
                    what,
                    done,
                    all,
                    unit,
                    Durations.text(seconds / done * (all - done))));
        }
    }
}
