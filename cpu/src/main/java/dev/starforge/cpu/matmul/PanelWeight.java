package dev.starforge.cpu.matmul;

import dev.starforge.cpu.core.Panels;
import dev.starforge.cpu.core.View;
import dev.starforge.tensor.codec.GroupCodec;
import dev.starforge.tensor.codec.MatrixCodec;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;

/**
 * A matrix of weights that lies in {@link Panels}, or a panel made of those of its rows that fill none. Scales lie with the
 * codes, or in planes of their own.
 *
 * @param at where in {@code segment} its panels begin
 * @param row the first row of its panels
 * @param rows of the whole matrix
 * @param planes of the whole matrix; empty if scales lie with the codes
 */
record PanelWeight(Panels panels, MemorySegment segment, long at, int row, int rows, int columns, ByteBuffer planes) {
    private static final ByteBuffer NONE = ByteBuffer.allocate(0);

    /** The matrix that begins at an element. */
    static PanelWeight of(View w, long from) {
        return new PanelWeight(
                Panels.of(w.dtype),
                w.segment,
                w.matrixAt(from),
                0,
                Math.toIntExact(w.height),
                Math.toIntExact(w.last),
                w.dtype.isPlanar() ? w.matrix(from) : NONE);
    }

    /** The rows behind the last whole panel, as a panel in memory of its own. */
    PanelWeight rest(MemorySegment panel) {
        int whole = rows / Panels.ROWS;
        panels.pack(segment, at(whole, 0), rows % Panels.ROWS, columns, panel, 0);
        return new PanelWeight(panels, panel, 0, whole * Panels.ROWS, rows, columns, planes);
    }

    /** Where the block of a panel begins that begins with element {@code k}. */
    long at(long panel, long k) {
        return at + panel * panels.at(columns) + panels.at(k);
    }

    /** Scales, and shifts, as {@link Codes#scales}, of {@code depth} elements of a panel from {@code k} on. */
    void scales(long panel, int k, int depth, int centre, float[] s, int d, int m) {
        if (!panels.type.isPlanar()) {
            Codes.scales(panels, segment, at(panel, k), depth, centre, s, d, m);
            return;
        }
        GroupCodec codec = (GroupCodec) MatrixCodec.of(panels.type);
        int group = codec.group();
        int first = row + (int) panel * Panels.ROWS;
        int count = Math.min(Panels.ROWS, rows - first);
        codec.scales(planes, rows, columns, first, count, k / group, depth / group, s, d, Panels.ROWS);
    }
}
