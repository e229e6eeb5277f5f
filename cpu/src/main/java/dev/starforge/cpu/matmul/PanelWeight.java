package dev.starforge.cpu.matmul;

import dev.starforge.cpu.core.Panels;
import dev.starforge.cpu.core.View;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.codec.GptqCodec;
import dev.starforge.tensor.codec.GroupCodec;
import dev.starforge.tensor.codec.PlanarCodec;
import dev.starforge.tensor.codec.PlanarMatrix;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/**
 * A matrix of weights stored in {@link Panels}, or a panel of its remaining rows. Scales are stored with the quantized
 * values, or in separate planes.
 *
 * @param at offset of its panels in {@code segment}
 * @param row the first row of its panels
 * @param rows rows of the whole matrix
 * @param planes planes of the whole matrix; empty if scales are stored with the quantized values
 * @param groups the groups of the columns of each K block if they are not consecutive (GPTQ act-order); else empty
 */
record PanelWeight(
        Panels panels,
        MemorySegment segment,
        long at,
        int row,
        int rows,
        int columns,
        ByteBuffer planes,
        List<KBlock> groups) {
    /** Elements whose scales are loaded together. */
    static final int K_BLOCK = 256;

    private static final ByteBuffer NONE = ByteBuffer.allocate(0);

    /**
     * Columns that are decoded together.
     *
     * @param groups those that they belong to, each once
     * @param slots for each column where its group is among them
     */
    record KBlock(int[] groups, int[] slots) {
        static KBlock of(int[] gIdx, int from, int count) {
            int[] groups = IntStream.range(from, from + count)
                    .map(k -> gIdx[k])
                    .distinct()
                    .sorted()
                    .toArray();
            int[] slots = IntStream.range(from, from + count)
                    .map(k -> Arrays.binarySearch(groups, gIdx[k]))
                    .toArray();
            return new KBlock(groups, slots);
        }
    }

    /** The matrix that begins at an element. */
    static PanelWeight of(View w, long from) {
        int rows = Math.toIntExact(w.height);
        int columns = Math.toIntExact(w.last);
        ByteBuffer planes = w.dtype.isPlanar() ? w.matrix(from) : NONE;
        List<KBlock> groups = new ArrayList<>();
        if (w.dtype.isPlanar() && PlanarCodec.of(w.dtype) instanceof GptqCodec codec) {
            int[] gIdx = codec.gIdx(planes, rows, columns);
            for (int k = 0; k < columns; k += K_BLOCK) {
                groups.add(KBlock.of(gIdx, k, Math.min(K_BLOCK, columns - k)));
            }
        }
        return new PanelWeight(Panels.of(w.dtype), w.segment, w.matrixAt(from), 0, rows, columns, planes, groups);
    }

    /** The most groups that a stretch of {@code k} columns of a type can have, each with a scale and a shift. */
    static int slots(DType type, long k) {
        return type.isPlanar() && PlanarCodec.of(type) instanceof GptqCodec codec
                ? Math.min(K_BLOCK, codec.groups(Math.toIntExact(k)))
                : K_BLOCK / 16;
    }

    /** The rows behind the last whole panel, as a panel in memory of its own. */
    PanelWeight rest(MemorySegment panel) {
        int whole = rows / Panels.ROWS;
        panels.pack(segment, at(whole, 0), rows % Panels.ROWS, columns, panel, 0);
        return new PanelWeight(panels, panel, 0, whole * Panels.ROWS, rows, columns, planes, groups);
    }

    /** Where the block of a panel begins that begins with element {@code k}. */
    long at(long panel, long k) {
        return at + panel * panels.at(columns) + panels.at(k);
    }

    /** Scales, and shifts, as {@link QuantizedValues#scales}, of {@code depth} elements of a panel from {@code k} on. */
    void scales(long panel, int k, int depth, int centre, float[] s, int d, int m) {
        if (!panels.type.isPlanar()) {
            QuantizedValues.scales(panels, segment, at(panel, k), depth, centre, s, d, m);
            return;
        }
        int first = row + (int) panel * Panels.ROWS;
        int count = Math.min(Panels.ROWS, rows - first);
        PlanarMatrix matrix = new PlanarMatrix(planes, rows, columns);
        switch (PlanarCodec.of(panels.type)) {
            case GroupCodec codec -> {
                int group = codec.group();
                codec.scales(matrix, first, count, k / group, depth / group, s, d, Panels.ROWS);
            }
            case GptqCodec codec -> {
                int[] chosen = groups.get(k / K_BLOCK).groups;
                codec.scales(matrix, first, count, chosen, s, d, m, Panels.ROWS);
            }
        }
    }

    /** Dequantizes {@code depth} elements of a panel from {@code k} on, as {@link QuantizedValues#weights}. */
    void weights(long panel, int k, int depth, float[] s, QuantizedValues.UnpackedPanel unpacked, int to) {
        if (groups.isEmpty()) {
            QuantizedValues.weights(panels, segment, at(panel, k), depth, s, unpacked, to);
        } else {
            QuantizedValues.grouped(s, unpacked, groups.get(k / K_BLOCK).slots, depth, to);
        }
    }
}
