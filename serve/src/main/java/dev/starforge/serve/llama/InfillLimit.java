package dev.starforge.serve.llama;

import dev.starforge.serve.engine.OutputLimit;
import java.time.Duration;

/**
 * Ends a fill-in-the-middle completion before a line that is indented less than {@code n_indent}, where the block ends; and after
 * {@code t_max_predict_ms}, counted from the first text, once there is a whole line; and at what ends another limit.
 */
final class InfillLimit implements OutputLimit {
    private final int indent;
    private final Duration time;
    private final OutputLimit other;
    private long begin;
    private boolean hasLine;
    private int column = -1;
    private boolean reached;

    /**
     * @param indent 0 for no limit
     * @param time zero for no limit
     */
    InfillLimit(int indent, Duration time, OutputLimit other) {
        this.indent = indent;
        this.time = time;
        this.other = other;
    }

    @Override
    public String pass(String text) {
        String delta = other.pass(text);
        if (begin == 0) {
            begin = System.nanoTime() | 1;
        }
        for (int i = 0; i < delta.length(); i++) {
            char c = delta.charAt(i);
            if (c == '\n') {
                hasLine = true;
                column = 0;
            } else if (column >= 0 && (c == ' ' || c == '\t')) {
                column++;
            } else if (column >= 0) {
                if (column < indent) {
                    reached = true;
                    return delta.substring(0, i);
                }
                column = -1;
            }
        }
        reached = hasLine && time.isPositive() && System.nanoTime() - begin > time.toNanos();
        return delta;
    }

    @Override
    public boolean isReached() {
        return reached || other.isReached();
    }
}
