package dev.starforge.tensor.codec;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The planes of a matrix stand for the numbers of the format they are planes of. */
final class MatrixCodecTest {
    /** More than 256 blocks, so that several magnitudes of magnitudes are there and one of them ends amid a row. */
    @Test
    void doubleQuantizedNf4IsThatOfTheFlattenedMatrix() {
        float[] w = normal(131 * 192);
        assertThat(roundTrip(DType.NF4_DOUBLE, w, 131, 192))
                .isEqualTo(Nf4.encodeDouble(w, 64).decode());
    }

    @Test
    void groupsOfBytesAreInt8Groups() {
        float[] w = normal(33 * 384);
        assertThat(roundTrip(DType.INT8_128, w, 33, 384))
                .isEqualTo(Int8Groups.encode(w, 33, 384, 128).decode());
    }

    @ParameterizedTest
    @ValueSource(ints = {32, 64, 128, 256})
    void roundedGptqIsThatOfAutoGptq(int group) {
        float[] w = normal(24 * 256);
        Int4Gptq file = Int4Gptq.encode(w, 24, 256, group);
        DType type = Int4Gptq.type(256, 256 / group).orElseThrow();
        assertThat(roundTrip(type, w, 24, 256)).isEqualTo(file.decode());
    }

    /** Inputs in an order of their own, any zero point. */
    @ParameterizedTest
    @ValueSource(ints = {32, 64, 128, 256})
    void actOrderedGptqKeepsItsOrder(int group) {
        int groups = 256 / group;
        Random random = new Random(group);
        byte[] quants = new byte[16 * 256];
        byte[] zeros = new byte[groups * 16];
        short[] scales = new short[groups * 16];
        int[] gIdx = new int[256];
        for (int i = 0; i < quants.length; i++) {
            quants[i] = (byte) random.nextInt(16);
        }
        for (int i = 0; i < zeros.length; i++) {
            zeros[i] = (byte) random.nextInt(16);
            scales[i] = Float.floatToFloat16(0.01f + random.nextFloat());
        }
        for (int i = 0; i < gIdx.length; i++) {
            gIdx[i] = random.nextInt(groups);
        }
        Int4Gptq file = Int4Gptq.pack(quants, 16, 256, zeros, scales, gIdx);
        DType type = Int4Gptq.type(256, groups).orElseThrow();
        ByteBuffer planes = planes(type, 16, 256);
        file.planes(type, 300, planes::put);
        assertThat(planes.flip().remaining()).isEqualTo(planes.capacity());
        assertThat(MatrixCodec.of(type).decode(planes, 16, 256)).isEqualTo(file.decode());
        float[] part = new float[128];
        MatrixCodec.of(type).decode(planes, 16, 256, 5, 128, 128, part, 0);
        for (int i = 0; i < part.length; i++) {
            assertThat(part[i]).isEqualTo(file.decode()[5 * 256 + 128 + i]);
        }
    }

    @Test
    void gptqHasATypeForWholeGroupsAlone() {
        assertThat(Int4Gptq.type(256, 1)).contains(DType.GPTQ_CHANNEL);
        assertThat(Int4Gptq.type(264, 3)).isEmpty();
        assertThat(Int4Gptq.type(40, 1)).isEmpty();
        Int4Gptq two = Int4Gptq.encode(normal(8 * 128), 8, 128, 64);
        assertThatThrownBy(() -> two.planes(DType.GPTQ_128, 1, piece -> {}))
                .isInstanceOf(TensorException.class)
                .hasMessageContaining("2 groups, expected 1");
    }

    @Test
    void aBufferThatEndsEarlyIsAnError() {
        assertThatThrownBy(() -> MatrixCodec.of(DType.GPTQ_32).decode(ByteBuffer.allocate(100), 4, 32))
                .isInstanceOf(TensorException.class)
                .hasMessageContaining("g_idx end at byte 192 of 100");
    }

    /** By way of a buffer that begins elsewhere and has the other order. */
    private static float[] roundTrip(DType type, float[] w, int rows, int columns) {
        ByteBuffer planes = planes(type, rows, columns);
        MatrixCodec.of(type).encode(w, rows, columns, planes);
        ByteBuffer moved = ByteBuffer.allocateDirect(planes.capacity() + 7).position(7);
        moved.put(planes.duplicate()).position(7).order(ByteOrder.BIG_ENDIAN);
        return MatrixCodec.of(type).decode(moved, rows, columns);
    }

    private static ByteBuffer planes(DType type, int rows, int columns) {
        return ByteBuffer.allocate((int) new Spec(type, Shape.of(rows, columns)).bytes());
    }

    private static float[] normal(int count) {
        Random random = new Random(count);
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }
}
