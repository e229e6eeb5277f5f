package dev.starforge.serve.llama;

import dev.starforge.serve.generation.OutputLimit;
import java.time.Duration;

/**
 * Where an editor wants a suggestion to end: before a line that is indented less than so much, since the block to fill in is
 * over there; and after so long, counted from the first text, once there is a whole line to show.
 */
final class InfillLimit implements OutputLimit {
    private final int indent;
    private final Duration time;
    private long begin;
    private boolean hasLine;
    private int column = -1;
    private boolean reached;

    /**
     * @param indent 0 is no such end
     * @param time zero is no such end
     */
    InfillLimit(int indent, Duration time) {
        this.indent = indent;
        this.time = time;
    }

    @Override
    public String pass(String piece) {
        if (begin == 0) {
            begin = System.nanoTime() | 1;
        }
        for (int i = 0; i < piece.length(); i++) {
            char c = piece.charAt(i);
            if (c == '\n') {
                hasLine = true;
                column = 0;
            } else if (column >= 0 && (c == ' ' || c == '\t')) {
                column++;
            } else if (column >= 0) {
                if (column < indent) {
                    reached = true;
                    return piece.substring(0, i);
                }
                column = -1;
            }
        }
        reached = hasLine && time.isPositive() && System.nanoTime() - begin > time.toNanos();
        return piece;
    }

    @Override
    public boolean isReached() {
        return reached;
    }
}
