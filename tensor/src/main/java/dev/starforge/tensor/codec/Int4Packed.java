package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.ShapeException;
import java.util.Arrays;

/**
 * 4-bit weights in the layout of compressed-tensors ({@code pack-quantized}): eight columns per int32, low bits first,
 * values -8 to 7 stored plus 8, rows padded to whole int32s. Zero points, if any, are packed the same way along the
 * rows. A weight is {@code (code - zero) * scale}.
 *
 * @param packed {@code weight_packed}: rows x columns / 8, rounded up
 * @param scales {@code weight_scale}: rows x groups, widened from what the file holds
 * @param zeros {@code weight_zero_point}: rows / 8, rounded up, x groups; empty when symmetric
 * @param groups {@code weight_g_idx}: the group of each column
 */
public record Int4Packed(int rows, int columns, int[] packed, float[] scales, int[] zeros, int[] groups) {
    public Int4Packed {
        ColumnGroups.check("Int4Packed", rows, columns, 1);
        CodecMath.require(rows > 0 && scales.length % rows == 0, "Int4Packed", "scales for each of " + rows + " rows");
        int perRow = scales.length / rows;
        ColumnGroups.size("Int4Packed weight_packed", (long) rows * Math.ceilDiv(columns, 8), packed.length);
        ColumnGroups.size(
                "Int4Packed zeros", zeros.length == 0 ? 0 : (long) Math.ceilDiv(rows, 8) * perRow, zeros.length);
        ColumnGroups.size("Int4Packed groups", columns, groups.length);
        for (int g : groups) {
            if (g < 0 || g >= perRow) {
                throw new ShapeException("Int4Packed groups: group " + g + ", expected 0.." + (perRow - 1));
            }
        }
    }

    /**
     * Quantizes symmetrically: the largest magnitude of a group becomes 7.5, and scales are rounded to their type
     * first.
     */
    public static Int4Packed encode(float[] w, int rows, int columns, int group, DType scaleType) {
        ColumnGroups.check("Int4Packed", rows, columns, group);
        ColumnGroups.size("Int4Packed weights", (long) rows * columns, w.length);
        CodecMath.requireFinite("Int4Packed", w, 0, w.length);
        int perRow = ColumnGroups.count(columns, group);
        float[] scales = new float[rows * perRow];
        byte[] quants = new byte[w.length];
        for (int g = 0; g < scales.length; g++) {
            int from = g / perRow * columns + g % perRow * group;
            int count = ColumnGroups.length(columns, group, g % perRow);
            float exact = CodecMath.absmax(w, from, count) / 7.5f;
            float scale = scaleType == DType.F32 ? exact : scaleType.widen(scaleType.narrow(exact));
            scales[g] = scale;
            for (int i = from; i < from + count && scale > 0; i++) {
                quants[i] = (byte) CodecMath.nearest(w[i] / scale, -8, 7);
            }
        }
        int[] groups = new int[columns];
        Arrays.setAll(groups, i -> i / group);
        return new Int4Packed(rows, columns, pack(quants, rows, columns), scales, new int[0], groups);
    }

    /** Packs the values -8 to 7 of each row, eight per int32. */
    public static int[] pack(byte[] quants, int rows, int columns) {
        ColumnGroups.size("Int4Packed quants", (long) rows * columns, quants.length);
        int words = Math.ceilDiv(columns, 8);
        int[] packed = new int[rows * words];
        for (int i = 0; i < quants.length; i++) {
            int column = i % columns;
            packed[i / columns * words + column / 8] |= (quants[i] + 8 & 15) << column % 8 * 4;
        }
        return packed;
    }

    /** Returns the quantized value of a weight, -8 to 7. */
    public int code(int row, int column) {
        return (packed[row * Math.ceilDiv(columns, 8) + column / 8] >>> column % 8 * 4 & 15) - 8;
    }

    /** Returns the zero point of a group of a row. */
    public int zero(int row, int group) {
        int perRow = scales.length / rows;
        return zeros.length == 0 ? 0 : (zeros[row / 8 * perRow + group] >>> row % 8 * 4 & 15) - 8;
    }

    /** The weights, rows x columns. */
    public float[] decode() {
        float[] w = new float[rows * columns];
        int perRow = scales.length / rows;
        for (int row = 0; row < rows; row++) {
            for (int c = 0; c < columns; c++) {
                int group = groups[c];
                w[row * columns + c] = (code(row, c) - zero(row, group)) * scales[row * perRow + group];
            }
        }
        return w;
    }
}
