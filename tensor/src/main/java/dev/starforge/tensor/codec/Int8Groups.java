package dev.starforge.tensor.codec;

/**
 * An int8 matrix with one scale for each row and group of columns, used for frozen weights in training. The last group
 * of a row is padded with zeros. The scale is the group's largest magnitude / 127. Values are rounded using the float32
 * scale, which is then stored as fp16, so a decoded weight is {@code code * fp16(scale)}. A group of zeros has scale 0.
 *
 * @param quants rows x padded columns
 * @param scales rows x groups, fp16
 */
public record Int8Groups(int rows, int columns, int group, byte[] quants, short[] scales) {
    public static final int DEFAULT_GROUP = 128;

    public Int8Groups {
        ColumnGroups.check("Int8Groups", rows, columns, group);
        ColumnGroups.size("Int8Groups quants", rows * ColumnGroups.padded(columns, group), quants.length);
        ColumnGroups.size("Int8Groups scales", rows * (long) ColumnGroups.count(columns, group), scales.length);
    }

    public static Int8Groups encode(float[] w, int rows, int columns, int group) {
        ColumnGroups.check("Int8Groups", rows, columns, group);
        ColumnGroups.size("Int8Groups weights", (long) rows * columns, w.length);
        CodecMath.requireFinite("Int8Groups", w, 0, w.length);
        int groups = ColumnGroups.count(columns, group);
        byte[] quants = new byte[(int) (rows * ColumnGroups.padded(columns, group))];
        short[] scales = new short[rows * groups];
        for (int g = 0; g < scales.length; g++) {
            int from = g / groups * columns + g % groups * group;
            int count = ColumnGroups.length(columns, group, g % groups);
            float scale = CodecMath.absmax(w, from, count) / 127;
            scales[g] = Float.floatToFloat16(scale);
            CodecMath.require(
                    Float.isFinite(Float.float16ToFloat(scales[g])),
                    "Int8Groups",
                    "scales that fit into fp16, got " + scale + " in group " + g);
            for (int i = 0; i < count && scale > 0; i++) {
                quants[g * group + i] = (byte) CodecMath.nearest(w[from + i] / scale, -128, 127);
            }
        }
        return new Int8Groups(rows, columns, group, quants, scales);
    }

    /** The weights, rows x columns. */
    public float[] decode() {
        float[] w = new float[rows * columns];
        for (int row = 0; row < rows; row++) {
            decode(row, w, row * columns);
        }
        return w;
    }

    /** One row of weights. */
    public void decode(int row, float[] out, int at) {
        int groups = ColumnGroups.count(columns, group);
        for (int c = 0; c < columns; c++) {
            float scale = Float.float16ToFloat(scales[row * groups + c / group]);
            out[at + c] = quants[row * groups * group + c] * scale;
        }
    }
}
