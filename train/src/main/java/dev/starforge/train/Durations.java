package dev.starforge.train;

import java.util.Locale;

/** Formats durations for messages. */
public final class Durations {
    private Durations() {}

    /** Returns text such as "3.2 s", "42 s", "16 min 30 s" or "2 h 5 min"; "?" if the duration is unknown. */
    public static String text(double seconds) {
        if (!(seconds >= 0)) {
            return "?";
        }
        if (seconds < 10) {
            return String.format(Locale.ROOT, "%.1f s", seconds);
        }
        long whole = Math.round(seconds);
        if (whole < 60) {
            return whole + " s";
        }
        return whole < 3600
                ? whole / 60 + " min " + whole % 60 + " s"
                : whole / 3600 + " h " + whole / 60 % 60 + " min";
    }
}
