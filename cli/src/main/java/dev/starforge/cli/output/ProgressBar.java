package dev.starforge.cli.output;

import java.io.PrintWriter;

/** A progress bar on the last line of a terminal. Without a terminal only lines are printed. */
public final class ProgressBar {
    private static final int WIDTH = 30;
    private static final String CLEAR = "\r\u001b[K";

    private final PrintWriter out;
    private final boolean terminal;

    public ProgressBar(PrintWriter out, boolean terminal) {
        this.out = out;
        this.terminal = terminal;
    }

    public boolean isTerminal() {
        return terminal;
    }

    /** Redraws the bar; {@code total} 0 means unknown. */
    public void draw(String stage, long done, long total, String text) {
        int filled = (int) (WIDTH * done / Math.max(1, total));
        String line = total == 0
                ? stage + "…"
                : String.format(
                        "%-10s %s%s %3d%% %s",
                        stage, "█".repeat(filled), "░".repeat(WIDTH - filled), 100 * done / total, text);
        out.print(CLEAR + line);
        out.flush();
    }

    public void print(String line) {
        clear();
        out.println(line);
        out.flush();
    }

    /** Removes the bar. */
    public void clear() {
        if (terminal) {
            out.print(CLEAR);
        }
        out.flush();
    }
}
