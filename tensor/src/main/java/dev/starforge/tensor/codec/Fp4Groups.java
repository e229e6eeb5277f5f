package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A matrix of E2M1 floats with one scale for each row and group of columns; two values share a byte, the first in the
 * low nibble, and the last group of a row is padded with zeros. The variants differ in their scales:
 *
 * <ul>
 * <li>{@code HALF}: fp16, any even group; the largest magnitude becomes 6.
 * <li>{@code MX}: a power of two for each 32 weights (OCP MXFP4).
 * <li>{@code NV}: an E4M3 float for each 16 weights, over one float32 for the matrix (NVFP4; the global scale divides,
 * as compressed-tensors stores it).
 * </ul>
 *
 * <p>Values are rounded using the scale as stored. The "FP4" of bitsandbytes is a different format.
 *
 * @param quants rows x padded columns / 2
 * @param scales rows x groups, little-endian f16 or single bytes
 * @param global 1 unless the scaling is {@code NV}
 */
public record Fp4Groups(
        Fp4Scaling scaling, int rows, int columns, int group, byte[] quants, byte[] scales, float global) {
    public enum Fp4Scaling {
        HALF,
        MX,
        NV;

        private int bytes() {
            return this == HALF ? 2 : 1;
        }
    }

    private static final float LARGEST_E4M3 = 448;

    public Fp4Groups {
        ColumnGroups.check("Fp4Groups", rows, columns, group);
        CodecMath.require(group % 2 == 0, "Fp4Groups", "an even group, got " + group);
        ColumnGroups.size("Fp4Groups quants", rows * ColumnGroups.padded(columns, group) / 2, quants.length);
        ColumnGroups.size(
                "Fp4Groups scales", (long) rows * ColumnGroups.count(columns, group) * scaling.bytes(), scales.length);
    }

    /** Quantizes with fp16 scales. */
    public static Fp4Groups encode(float[] w, int rows, int columns, int group) {
        return encode(Fp4Scaling.HALF, w, rows, columns, group, 1);
    }

    public static Fp4Groups encodeMx(float[] w, int rows, int columns) {
        return encode(Fp4Scaling.MX, w, rows, columns, 32, 1);
    }

    public static Fp4Groups encodeNv(float[] w, int rows, int columns) {
        float absmax = CodecMath.absmax(w, 0, w.length);
        return encode(Fp4Scaling.NV, w, rows, columns, 16, absmax == 0 ? 1 : LARGEST_E4M3 * E2m1.LARGEST / absmax);
    }

    private static Fp4Groups encode(Fp4Scaling scaling, float[] w, int rows, int columns, int group, float global) {
        ColumnGroups.check("Fp4Groups", rows, columns, group);
        ColumnGroups.size("Fp4Groups weights", (long) rows * columns, w.length);
        CodecMath.requireFinite("Fp4Groups", w, 0, w.length);
        int groups = ColumnGroups.count(columns, group);
        byte[] scales = new byte[rows * groups * scaling.bytes()];
        byte[] quants = new byte[(int) (rows * ColumnGroups.padded(columns, group) / 2)];
        Fp4Groups coded = new Fp4Groups(scaling, rows, columns, group, quants, scales, global);
        for (int g = 0; g < rows * groups; g++) {
            int from = g / groups * columns + g % groups * group;
            int count = ColumnGroups.length(columns, group, g % groups);
            coded.putScale(g, CodecMath.absmax(w, from, count));
            float scale = coded.scale(g);
            for (int i = 0; i < count && scale > 0; i++) {
                int at = g * group + i;
                quants[at / 2] |= (byte) (E2m1.nearest(w[from + i] / scale) << 4 * (at & 1));
            }
        }
        return coded;
    }

    private void putScale(int g, float absmax) {
        switch (scaling) {
            case HALF -> CodecMath.putFp16(f16Scales(), 2 * g, absmax / E2m1.LARGEST);
            case MX -> scales[g] = (byte) E2m1.exponent(absmax);
            case NV -> scales[g] = Fp8.E4M3.narrow(global * (absmax / E2m1.LARGEST));
        }
    }

    private float scale(int g) {
        return switch (scaling) {
            case HALF -> CodecMath.fp16(f16Scales(), 2 * g);
            case MX -> Fp8.power(scales[g]);
            case NV -> Fp8.E4M3.widen(scales[g]) / global;
        };
    }

    private ByteBuffer f16Scales() {
        return ByteBuffer.wrap(scales).order(ByteOrder.LITTLE_ENDIAN);
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
        for (int g = 0; g < groups; g++) {
            float scale = scale(row * groups + g);
            for (int i = 0; i < ColumnGroups.length(columns, group, g); i++) {
                int code = (row * groups + g) * group + i;
                out[at + g * group + i] = E2m1.value(quants[code / 2] >> 4 * (code & 1)) * scale;
            }
        }
    }
}
