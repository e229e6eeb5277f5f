package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.ShapeException;
import java.nio.ByteBuffer;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * A 4-bit projection in the layout of AutoGPTQ (version 1): transposed, eight input channels per int32, low bits first;
 * fp16 scales and zero points for each group of inputs and each output, the zero points minus one and eight outputs to
 * a word. {@code gIdx} names each input's group, which lets a quantizer order inputs by importance. A weight is
 * {@code scale * (code - zero)}.
 *
 * @param qweight in / 8 x out
 * @param qzeros groups x out / 8
 * @param scales groups x out
 * @param gIdx in
 */
public record Int4Gptq(int in, int out, int[] qweight, int[] qzeros, short[] scales, int[] gIdx) {
    static final int MIDDLE = 8;

    public Int4Gptq {
        ColumnGroups.check("Int4Gptq", in, out, 1);
        CodecMath.require(
                in % 8 == 0 && out % 8 == 0 && out > 0,
                "Int4Gptq",
                "in and out as multiples of 8, got " + in + " and " + out);
        ColumnGroups.size("Int4Gptq qweight", (long) in / 8 * out, qweight.length);
        ColumnGroups.size("Int4Gptq scales", (long) scales.length / out * out, scales.length);
        ColumnGroups.size("Int4Gptq qzeros", scales.length / 8, qzeros.length);
        ColumnGroups.size("Int4Gptq g_idx", in, gIdx.length);
        for (int g : gIdx) {
            if (g < 0 || g >= scales.length / out) {
                throw new ShapeException("Int4Gptq g_idx: group " + g + ", expected 0.." + (scales.length / out - 1));
            }
        }
    }

    /**
     * Quantizes out x in weights symmetrically: the zero point is 8, and the largest magnitude of a group becomes 7.5.
     */
    public static Int4Gptq encode(float[] w, int out, int in, int group) {
        ColumnGroups.check("Int4Gptq", out, in, group);
        ColumnGroups.size("Int4Gptq weights", (long) out * in, w.length);
        CodecMath.requireFinite("Int4Gptq", w, 0, w.length);
        int groups = ColumnGroups.count(in, group);
        byte[] quants = new byte[w.length];
        byte[] zeros = new byte[groups * out];
        short[] scales = new short[groups * out];
        int[] gIdx = new int[in];
        for (int i = 0; i < in; i++) {
            gIdx[i] = i / group;
        }
        for (int o = 0; o < out; o++) {
            for (int g = 0; g < groups; g++) {
                int from = o * in + g * group;
                int count = ColumnGroups.length(in, group, g);
                float scale = scale(w, from, count);
                scales[g * out + o] = Float.floatToFloat16(scale);
                zeros[g * out + o] = MIDDLE;
                for (int i = from; i < from + count; i++) {
                    quants[i] = (byte) code(w[i], scale);
                }
            }
        }
        return pack(quants, out, in, zeros, scales, gIdx);
    }

    /** Returns the scale of a symmetrically quantized group. */
    static float scale(float[] w, int from, int count) {
        return CodecMath.roundToFp16(CodecMath.absmax(w, from, count) / 7.5f);
    }

    static int code(float w, float scale) {
        return scale == 0 ? MIDDLE : CodecMath.nearest(w / scale, -8, 7) + MIDDLE;
    }

    /** Returns the type for a projection with this number of groups; empty if the groups do not divide the inputs. */
    public static Optional<DType> type(int in, int groups) {
        if (groups == 1) {
            return Optional.of(DType.GPTQ_CHANNEL).filter(type -> in % type.blockElements() == 0);
        }
        return Stream.of(DType.GPTQ_32, DType.GPTQ_64, DType.GPTQ_128)
                .filter(type -> (long) type.blockElements() * groups == in)
                .findFirst();
    }

    /**
     * Passes on the {@link DType#planes planes} of this projection in a GPTQ type, in chunks of about
     * {@code pieceBytes} bytes.
     */
    public void planes(DType type, int pieceBytes, Consumer<ByteBuffer> piece) {
        new GptqCodec(type).encode(this, pieceBytes, piece);
    }

    /**
     * Packs the result of a quantizer.
     *
     * @param quants out x in, 0 to 15
     * @param zeros groups x out, 0 to 15; 0 is stored as 15, which some readers interpret as 16, so use 1 to 15
     */
    public static Int4Gptq pack(byte[] quants, int out, int in, byte[] zeros, short[] scales, int[] gIdx) {
        ColumnGroups.size("Int4Gptq quants", (long) out * in, quants.length);
        ColumnGroups.size("Int4Gptq zeros", scales.length, zeros.length);
        int[] qweight = new int[in / 8 * out];
        for (int i = 0; i < in / 8 * 8; i++) {
            for (int o = 0; o < out; o++) {
                qweight[i / 8 * out + o] |= (quants[o * in + i] & 15) << i % 8 * 4;
            }
        }
        int[] qzeros = new int[zeros.length / 8];
        for (int i = 0; i < qzeros.length * 8; i++) {
            qzeros[i / 8] |= (zeros[i] - 1 & 15) << i % 8 * 4;
        }
        return new Int4Gptq(in, out, qweight, qzeros, scales, gIdx);
    }

    /** Returns the quantized value of a weight, 0 to 15. */
    public int code(int o, int i) {
        return qweight[i / 8 * out + o] >>> i % 8 * 4 & 15;
    }

    /** Returns the zero point of a group of an output. */
    public int zero(int group, int o) {
        int at = group * out + o;
        return (qzeros[at / 8] >>> at % 8 * 4 & 15) + 1 & 15;
    }

    /** The weights, out x in. */
    public float[] decode() {
        float[] w = new float[out * in];
        for (int o = 0; o < out; o++) {
            for (int i = 0; i < in; i++) {
                w[o * in + i] = weight(o, i);
            }
        }
        return w;
    }

    /** One weight. */
    public float weight(int o, int i) {
        float scale = Float.float16ToFloat(scales[gIdx[i] * out + o]);
        return scale * (code(o, i) - zero(gIdx[i], o));
    }
}
