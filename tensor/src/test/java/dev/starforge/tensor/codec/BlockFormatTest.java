package dev.starforge.tensor.codec;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.Philox;
import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Blocks: their sizes, every code, what rounding loses, and misuse. Exactness against llama.cpp is tested with its files. */
final class BlockFormatTest {
    private static final int SIZE = 1024;

    @ParameterizedTest
    @CsvSource({
        "F32, 0, 1, 4",
        "F16, 1, 1, 2",
        "BF16, 30, 1, 2",
        "Q4_0, 2, 32, 18",
        "Q4_1, 3, 32, 20",
        "Q5_0, 6, 32, 22",
        "Q5_1, 7, 32, 24",
        "Q8_0, 8, 32, 34",
        "Q2_K, 10, 256, 84",
        "Q3_K, 11, 256, 110",
        "Q4_K, 12, 256, 144",
        "Q5_K, 13, 256, 176",
        "Q6_K, 14, 256, 210",
        "MXFP4, 39, 32, 17"
    })
    void sizes(BlockFormat format, int id, int elements, int bytes) {
        assertThat(format.ggufId()).isEqualTo(id);
        assertThat(format.blockElements()).isEqualTo(elements);
        assertThat(format.blockBytes()).isEqualTo(bytes);
        assertThat(format.bytes(3L * elements)).isEqualTo(3L * bytes);
    }

    /** The root of the mean squared error of Gaussian weights over their deviation, measured and rounded up by two percent. */
    @ParameterizedTest
    @CsvSource({
        "F32, 0",
        "F16, 0.00023",
        "BF16, 0.0017",
        "Q8_0, 0.0055",
        "Q6_K, 0.0182",
        "Q5_K, 0.037",
        "Q5_1, 0.0385",
        "Q5_0, 0.0445",
        "Q4_K, 0.073",
        "Q4_1, 0.0795",
        "Q4_0, 0.0865",
        "MXFP4, 0.120",
        "NF4, 0.0943",
        "Q3_K, 0.153",
        "Q2_K, 0.307"
    })
    void quantizationErrorIsBounded(BlockFormat format, double most) {
        float[] w = gaussian(SIZE);
        float[] back = decode(format, encode(format, w), w.length);
        double sum = 0;
        for (int i = 0; i < SIZE; i++) {
            sum += Math.pow(back[i] - w[i], 2);
        }
        assertThat(Math.sqrt(sum / SIZE)).isBetween(0.95 * most, most);
    }

    @ParameterizedTest
    @EnumSource
    void zerosStayZeros(BlockFormat format) {
        float[] back = decode(format, encode(format, new float[SIZE]), SIZE);
        for (float value : back) {
            assertThat(value == 0).isTrue();
        }
    }

    /** Codes found again from the numbers they stand for: no drift when a model is rewritten in its own format. */
    @ParameterizedTest
    @EnumSource(names = {"F32", "F16", "BF16", "Q4_0", "Q5_0", "Q8_0", "MXFP4", "NF4"})
    void decodedBlocksEncodeToTheSameValues(BlockFormat format) {
        float[] once = decode(format, encode(format, gaussian(SIZE)), SIZE);
        float[] twice = decode(format, encode(format, once), SIZE);
        assertThat(twice).isEqualTo(once);
    }

    @ParameterizedTest
    @EnumSource(names = {"Q4_0", "Q4_1", "Q5_0", "Q5_1"})
    void everyCodeOfTheSmallBlocks(BlockFormat format) {
        boolean offset = format == BlockFormat.Q4_1 || format == BlockFormat.Q5_1;
        int bits = format == BlockFormat.Q4_0 || format == BlockFormat.Q4_1 ? 4 : 5;
        for (int code = 0; code < 1 << bits; code++) {
            ByteBuffer block = block(format);
            block.putShort(0, Float.floatToFloat16(0.5f));
            if (offset) {
                block.putShort(2, Float.floatToFloat16(3));
            }
            for (int i = 0; i < 16; i++) {
                block.put(format.blockBytes() - 16 + i, (byte) ((code & 15) * 17));
            }
            if (bits == 5) {
                block.putInt(offset ? 4 : 2, code > 15 ? -1 : 0);
            }
            float[] all = new float[32];
            Arrays.fill(all, offset ? code * 0.5f + 3 : (code - (1 << bits - 1)) * 0.5f);
            assertThat(decode(format, block, 32)).isEqualTo(all);
        }
    }

    @Test
    void theFifthBitsGoFromTheFirstElementUp() {
        for (int i = 0; i < 32; i++) {
            ByteBuffer block = block(BlockFormat.Q5_0);
            block.putShort(0, Float.floatToFloat16(1));
            block.putInt(2, 1 << i);
            float[] expected = new float[32];
            Arrays.fill(expected, -16);
            expected[i] = 0;
            assertThat(decode(BlockFormat.Q5_0, block, 32)).isEqualTo(expected);
        }
    }

    @Test
    void everyCodeOfQ8() {
        for (int first = -128; first < 128; first += 32) {
            ByteBuffer block = block(BlockFormat.Q8_0);
            block.putShort(0, Float.floatToFloat16(0.25f));
            float[] expected = new float[32];
            for (int i = 0; i < 32; i++) {
                block.put(2 + i, (byte) (first + i));
                expected[i] = (first + i) * 0.25f;
            }
            assertThat(decode(BlockFormat.Q8_0, block, 32)).isEqualTo(expected);
        }
    }

    @Test
    void everyExponentOfMxfp4() {
        for (int exponent = 0; exponent < 255; exponent++) {
            ByteBuffer block = block(BlockFormat.MXFP4);
            block.put(0, (byte) exponent);
            block.put(1, (byte) 0xa2);
            float[] values = decode(BlockFormat.MXFP4, block, 32);
            assertThat((double) values[0]).isEqualTo(Math.scalb(1.0, exponent - 127));
            assertThat((double) values[16]).isEqualTo(-Math.scalb(1.0, exponent - 127));
        }
    }

    /** Each sub-block has a scale of its own. Signed quants have one more below zero, so both ends cannot be met: a sixth. */
    @ParameterizedTest
    @EnumSource(names = {"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"})
    void subBlocksKeepTheirPlaces(BlockFormat format) {
        int sub = format == BlockFormat.Q4_K || format == BlockFormat.Q5_K ? 32 : 16;
        for (int s = 0; s < 256 / sub; s++) {
            float[] w = new float[256];
            for (int i = 0; i < sub; i++) {
                w[s * sub + i] = i % 2 == 0 ? 1 : -1;
            }
            float[] back = decode(format, encode(format, w), 256);
            for (int i = 0; i < 256; i++) {
                assertThat(back[i]).as("sub-block %d, element %d", s, i).isBetween(w[i] - 0.17f, w[i] + 0.17f);
            }
        }
    }

    @ParameterizedTest
    @EnumSource
    void aRangeInTheMiddleTouchesNothingElse(BlockFormat format) {
        int block = format.blockElements();
        float[] w = gaussian(3 * block);
        ByteBuffer whole = encode(format, w);
        ByteBuffer padded =
                ByteBuffer.allocateDirect(7 + 3 * format.blockBytes() + 5).order(ByteOrder.BIG_ENDIAN);
        for (int i = 0; i < padded.limit(); i++) {
            padded.put(i, (byte) 0x5a);
        }
        format.encode(w, block, block, padded, 7);
        for (int i = 0; i < padded.limit(); i++) {
            boolean inside = i >= 7 && i < 7 + format.blockBytes();
            assertThat(padded.get(i)).isEqualTo(inside ? whole.get(format.blockBytes() + i - 7) : (byte) 0x5a);
        }
        float[] out = new float[3 * block];
        Arrays.fill(out, Float.NaN);
        format.decode(padded, 7, out, block, block);
        float[] expected = decode(format, whole, 3 * block);
        for (int i = 0; i < out.length; i++) {
            assertThat(Float.compare(out[i], i / block == 1 ? expected[i] : Float.NaN))
                    .isZero();
        }
    }

    @Test
    void misuseIsAnError() {
        BlockFormat format = BlockFormat.Q4_0;
        ByteBuffer bytes = ByteBuffer.allocate(18);
        assertThatThrownBy(() -> format.bytes(33))
                .isInstanceOf(TensorException.class)
                .hasMessageContaining("multiple of 32");
        assertThatThrownBy(() -> format.bytes(-32)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> BlockFormat.F32.bytes(1L << 62)).hasMessageContaining("2^63");
        assertThatThrownBy(() -> format.decode(bytes, 0, new float[32], 0, 16)).hasMessageContaining("multiple of 32");
        assertThatThrownBy(() -> format.decode(bytes, 1, new float[32], 0, 32)).hasMessageContaining("decode Q4_0");
        assertThatThrownBy(() -> format.decode(bytes, 0, new float[32], 1, 32)).hasMessageContaining("decode Q4_0");
        assertThatThrownBy(() -> format.encode(new float[31], 0, 32, bytes, 0)).hasMessageContaining("encode Q4_0");
    }

    @ParameterizedTest
    @EnumSource
    void onlyFloatTypesAcceptNan(BlockFormat format) {
        float[] w = new float[format.blockElements()];
        w[w.length - 1] = Float.NEGATIVE_INFINITY;
        ByteBuffer bytes = ByteBuffer.allocate(format.blockBytes());
        if (format.isQuantized()) {
            assertThatThrownBy(() -> format.encode(w, 0, w.length, bytes, 0))
                    .isInstanceOf(TensorException.class)
                    .hasMessageContaining("element " + (w.length - 1) + " is -Infinity");
        } else {
            format.encode(w, 0, 1, bytes, 0);
            assertThat(decode(format, bytes, 1)).containsExactly(Float.NEGATIVE_INFINITY);
        }
    }

    private static float[] gaussian(int size) {
        float[] w = new float[size];
        for (int i = 0; i < size; i++) {
            w[i] = Philox.normal(1, 2, i);
        }
        return w;
    }

    private static ByteBuffer block(BlockFormat format) {
        return ByteBuffer.allocate(format.blockBytes()).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static ByteBuffer encode(BlockFormat format, float[] w) {
        ByteBuffer bytes = ByteBuffer.allocate((int) format.bytes(w.length));
        format.encode(w, 0, w.length, bytes, 0);
        return bytes;
    }

    private static float[] decode(BlockFormat format, ByteBuffer bytes, int count) {
        float[] out = new float[count];
        format.decode(bytes, 0, out, 0, count);
        return out;
    }
}
