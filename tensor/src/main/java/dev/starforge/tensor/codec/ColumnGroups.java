package dev.starforge.tensor.codec;

import dev.starforge.tensor.ShapeException;

/** Groups of columns within a row; the last may be shorter than the others. */
final class ColumnGroups {
    private ColumnGroups() {}

    static void check(String format, int rows, int columns, int group) {
        if (rows < 0 || columns < 0 || group < 1 || (long) rows * padded(columns, group) > Integer.MAX_VALUE) {
            throw new ShapeException(format + ": expected a matrix of less than 2^31 weights and a group above 0, got "
                    + rows + " x " + columns + " in groups of " + group);
        }
    }

    static void size(String what, long expected, long actual) {
        if (expected != actual) {
            throw new ShapeException(what + ": expected " + expected + " values, got " + actual);
        }
    }

    static int count(int columns, int group) {
        return Math.ceilDiv(columns, group);
    }

    static long padded(int columns, int group) {
        return (long) count(columns, group) * group;
    }

    /** The columns of a group that are not padding. */
    static int length(int columns, int group, int index) {
        return Math.min(group, columns - index * group);
    }
}
