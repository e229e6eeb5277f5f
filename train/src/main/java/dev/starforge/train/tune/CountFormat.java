package dev.starforge.train.tune;

import java.util.Locale;

/** Formats counts with K and M suffixes. */
public final class CountFormat {
    private CountFormat() {}

    /** Returns text such as "950", "12.3 K" or "4.1 M". */
    public static String text(double count) {
        return count < 1e3
                ? String.format(Locale.ROOT, "%.0f", count)
                : count < 1e6
                        ? String.format(Locale.ROOT, "%.1f K", count / 1e3)
                        : String.format(Locale.ROOT, "%.1f M", count / 1e6);
    }
}
