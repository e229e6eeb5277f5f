package dev.starforge.cli.output;

import java.io.PrintWriter;
import java.util.function.IntSupplier;

/** A progress bar on the last line of a terminal, never wider than the terminal. Without a terminal only lines are printed. */
public final class ProgressBar {
    private static final int LONGEST_BAR = 30;
    private static final int LEAST_WIDTH_WITH_BAR = 36;
    private static final long WIDTH_EVERY = 5_000_000_000L;
    private static final String CLEAR = "\r\u001b[K";
    private static final String BETWEEN = "  ";

    private final PrintWriter out;
    private final boolean terminal;
    private final IntSupplier width;

    public ProgressBar(PrintWriter out, boolean terminal) {
        this(out, terminal, new CurrentWidth());
    }

    /** @param width columns of the terminal */
    public ProgressBar(PrintWriter out, boolean terminal, IntSupplier width) {
        this.out = out;
        this.terminal = terminal;
        this.width = width;
    }

    /** The width of a terminal that may be resized; asking for it takes milliseconds. */
    private static final class CurrentWidth implements IntSupplier {
        private long asked;
        private int width;

        @Override
        public int getAsInt() {
            long now = System.nanoTime();
            if (width == 0 || now - asked > WIDTH_EVERY) {
                width = Terminal.width();
                asked = now;
            }
            return width;
        }
    }

    public boolean isTerminal() {
        return terminal;
    }

    /**
     * Redraws the bar; {@code total} 0 means unknown.
     *
     * @param parts texts after the bar, the most important first; those that do not fit are left out
     */
    public void draw(String stage, long done, long total, String... parts) {
        int columns = width.getAsInt() - 1; // a full line would wrap
        out.print(CLEAR + Terminal.cut(total == 0 ? stage + "…" : line(columns, stage, done, total, parts), columns));
        out.flush();
    }

    private static String line(int columns, String stage, long done, long total, String... parts) {
        int bar = columns < LEAST_WIDTH_WITH_BAR ? 0 : Math.min(LONGEST_BAR, columns / 4);
        int filled = (int) (bar * Math.min(done, total) / total);
        StringBuilder line = new StringBuilder(String.format("%-10s ", stage));
        if (bar > 0) {
            line.append("█".repeat(filled)).append("░".repeat(bar - filled)).append(' ');
        }
        line.append(String.format("%3d%%", 100 * done / total));
        String before = " ";
        for (String part : parts) {
            if (!part.isEmpty() && (before.equals(" ") || line.length() + before.length() + part.length() <= columns)) {
                line.append(before).append(part);
                before = BETWEEN;
            }
        }
        return line.toString();
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
