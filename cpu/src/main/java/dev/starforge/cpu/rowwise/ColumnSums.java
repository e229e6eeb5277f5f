package dev.starforge.cpu.rowwise;

import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.elementwise.Elementwise;
import java.util.Arrays;

/**
 * Sums down the rows of a matrix. A chunk is some columns and all rows, so that every sum has one writer; rows are added
 * in blocks and the blocks in order, which keeps the rounding of long columns small.
 */
public final class ColumnSums {
    /** Columns in a chunk. */
    static final int WIDTH = 128;

    private static final int BLOCK = 128;

    private ColumnSums() {}

    /**
     * Adds part of a row to the sums at {@code sum}, which are {@link #WIDTH} elements apart; scratch is at {@code at}.
     */
    interface Term {
        void add(long row, long column, int count, float[] s, int at, int sum);
    }

    /** Computes one sum per output. */
    static void sum(Workers workers, long rows, long columns, View[] outputs, Term term) {
        workers.run(Workers.count(columns, WIDTH), (chunk, s, at) -> {
            long column = chunk * WIDTH;
            int count = (int) Math.min(WIDTH, columns - column);
            int length = outputs.length * WIDTH;
            int total = at;
            int block = at + length;
            Arrays.fill(s, total, total + length, 0);
            for (long row = 0; row < rows; row += BLOCK) {
                Arrays.fill(s, block, block + length, 0);
                for (long i = row; i < Math.min(rows, row + BLOCK); i++) {
                    term.add(i, column, count, s, block + length, block);
                }
                Elementwise.add(s, total, block, length);
            }
            for (int i = 0; i < outputs.length; i++) {
                outputs[i].store(column, count, s, total + i * WIDTH);
            }
        });
    }
}
