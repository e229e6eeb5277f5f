package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Plane;
import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.function.Consumer;

/**
 * {@link Int4Gptq} with one row per output. The planes are: 4-bit quantized values, two per byte, the first in the low
 * nibble; the group of each input; the scales; and 4-bit zero points minus one, row by row. AutoGPTQ's files store the
 * transposed layout.
 */
public record GptqCodec(DType type) implements PlanarCodec {
    /** Returns the number of groups per row. */
    public int groups(int columns) {
        return switch (type) {
            case GPTQ_CHANNEL -> Math.min(1, columns);
            default -> columns / type.blockElements();
        };
    }

    @Override
    public int codeBits() {
        return 4;
    }

    /** Returns the group of each column. */
    public int[] gIdx(ByteBuffer matrix, int rows, int columns) {
        int[] gIdx = new int[columns];
        MatrixCodec.plane(type, matrix, rows, columns, 1).asIntBuffer().get(gIdx);
        return gIdx;
    }

    /**
     * Decodes scales and zero points of some groups for {@code count} rows from {@code row} on, group by group; groups
     * are {@code lanes} elements apart.
     *
     * @param chosen the indices of the groups
     */
    public void scales(
            PlanarMatrix matrix, int row, int count, int[] chosen, float[] out, int scales, int zeros, int lanes) {
        ByteBuffer in = MatrixCodec.littleEndian(matrix.planes());
        int groups = groups(matrix.columns());
        int weights = matrix.rows() * matrix.columns();
        int scalesAt = in.position() + weights / 2 + Integer.BYTES * matrix.columns();
        int nibbles = scalesAt + Short.BYTES * matrix.rows() * groups;
        for (int r = 0; r < count; r++) {
            for (int j = 0; j < chosen.length; j++) {
                int i = (row + r) * groups + chosen[j];
                out[scales + j * lanes + r] = CodecMath.fp16(in, scalesAt + Short.BYTES * i);
                out[zeros + j * lanes + r] = (in.get(nibbles + i / 2) >> i % 2 * 4 & 15) + 1 & 15;
            }
        }
    }

    @Override
    public void decode(
            ByteBuffer quants, int from, PlanarMatrix matrix, int row, int column, int count, float[] out, int at) {
        ByteBuffer gIdx = MatrixCodec.plane(type, matrix.planes(), matrix.rows(), matrix.columns(), 1);
        int groups = groups(matrix.columns());
        int[] all = new int[groups];
        Arrays.setAll(all, g -> g);
        float[] scales = new float[2 * groups];
        scales(matrix, row, 1, all, scales, 0, groups, 1);
        for (int i = 0; i < count; i++) {
            int code = quants.get(from + i / 2) >> i % 2 * 4 & 15;
            int g = gIdx.getInt(Integer.BYTES * (column + i));
            out[at + i] = scales[g] * (code - scales[groups + g]);
        }
    }

    /** Quantizes symmetrically, with groups of consecutive columns, as {@link Int4Gptq#encode}. */
    @Override
    public void encode(float[] w, int rows, int columns, ByteBuffer out) {
        CodecMath.requireFinite(type, w, 0, w.length);
        int groups = groups(columns);
        int group = groups == 0 ? 1 : columns / groups;
        ByteBuffer quants = MatrixCodec.plane(type, out, rows, columns, 0);
        ByteBuffer gIdx = MatrixCodec.plane(type, out, rows, columns, 1);
        ByteBuffer scalePlane = MatrixCodec.plane(type, out, rows, columns, 2);
        ByteBuffer nibbles = MatrixCodec.plane(type, out, rows, columns, 3);
        for (int c = 0; c < columns; c++) {
            gIdx.putInt(Integer.BYTES * c, c / group);
        }
        for (int g = 0; g < rows * groups; g++) {
            float scale = Int4Gptq.scale(w, g * group, group);
            scalePlane.putShort(Short.BYTES * g, Float.floatToFloat16(scale));
            putNibble(nibbles, g, Int4Gptq.MIDDLE - 1);
            for (int i = g * group; i < (g + 1) * group; i++) {
                putNibble(quants, i, Int4Gptq.code(w[i], scale));
            }
        }
    }

    /**
     * Transposes a projection of a file into planes, some rows of quantized values at a time, then the other planes.
     */
    void encode(Int4Gptq file, int pieceBytes, Consumer<ByteBuffer> piece) {
        int rows = file.out();
        int columns = file.in();
        int groups = file.scales().length / rows;
        if (groups != groups(columns)) {
            throw new TensorException(
                    type + "[" + rows + ", " + columns + "]: " + groups + " groups, expected " + groups(columns));
        }
        int step = Math.max(1, pieceBytes / (columns / 2));
        for (int first = 0; first < rows; first += step) {
            int end = Math.min(rows, first + step);
            ByteBuffer quants = ByteBuffer.allocate((end - first) * (columns / 2));
            for (int row = first; row < end; row++) {
                for (int c = 0; c < columns; c += 2) {
                    quants.put((byte) (file.code(row, c) | file.code(row, c + 1) << 4));
                }
            }
            piece.accept(quants.flip());
        }
        List<Plane> planes = type.planes(rows, columns);
        int bytes =
                Math.toIntExact(planes.stream().skip(1).mapToLong(Plane::bytes).sum());
        ByteBuffer rest = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
        for (int g : file.gIdx()) {
            rest.putInt(g);
        }
        for (int i = 0; i < rows * groups; i++) {
            rest.putShort(file.scales()[i % groups * rows + i / groups]);
        }
        ByteBuffer zeros = rest.slice();
        for (int i = 0; i < rows * groups; i++) {
            putNibble(zeros, i, file.zero(i % groups, i / groups) - 1);
        }
        piece.accept(rest.rewind());
    }

    private static void putNibble(ByteBuffer nibbles, int i, int value) {
        int kept = nibbles.get(i / 2) & (i % 2 == 0 ? 0xf0 : 0x0f);
        nibbles.put(i / 2, (byte) (kept | (value & 15) << i % 2 * 4));
    }
}
