package dev.starforge.tensor.codec;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** The planar formats: every code comes back, odd shapes are padded, a weight never moves by more than half a step. */
final class GroupFormatsTest {
    @ParameterizedTest
    @CsvSource({"1, 1, 128", "5, 7, 4", "3, 130, 64", "11, 13, 16", "0, 5, 2", "5, 0, 2"})
    void int8KeepsOddShapesWithinHalfAStep(int rows, int columns, int group) {
        float[] w = gaussian(rows * columns);
        Int8Groups coded = Int8Groups.encode(w, rows, columns, group);
        assertThat(coded.quants()).hasSize(rows * Math.ceilDiv(columns, group) * group);
        float[] back = coded.decode();
        for (int i = 0; i < w.length; i++) {
            int row = i / columns;
            float scale =
                    Float.float16ToFloat(coded.scales()[row * Math.ceilDiv(columns, group) + i % columns / group]);
            // Half a step, and what the scale lost when it became a half: at most 127 quants of 2^-11 each.
            assertThat(Math.abs(back[i] - w[i])).isLessThanOrEqualTo(scale * (0.5f + 127 * 0x1p-11f));
        }
    }

    /** Every bound between two quants and its neighbours, and many numbers besides. */
    @Test
    void nf4FindsTheNearestCode() {
        float[] quants = Nf4.quants16();
        List<Float> numbers = new ArrayList<>();
        for (int i = 0; i + 1 < quants.length; i++) {
            float bound = (quants[i] + quants[i + 1]) / 2;
            numbers.addAll(List.of(bound, Math.nextUp(bound), Math.nextDown(bound), quants[i], quants[i + 1]));
        }
        for (int i = -10_000; i <= 10_000; i++) {
            float x = i / 10_000f;
            numbers.addAll(List.of(x, Math.clamp(Math.nextUp(x), -1, 1), Math.clamp(Math.nextDown(x), -1, 1)));
        }
        for (float x : numbers) {
            int nearest = 0;
            while (nearest < 15 && x > (quants[nearest] + quants[nearest + 1]) / 2) {
                nearest++;
            }
            assertThat(Nf4.code(x)).as("%s", x).isEqualTo(nearest);
        }
    }

    @Test
    void everyInt8CodeComesBack() {
        float[] w = new float[255];
        for (int i = 0; i < w.length; i++) {
            w[i] = (i - 127) * 0.5f;
        }
        Int8Groups coded = Int8Groups.encode(w, 1, 255, 255);
        for (int i = 0; i < w.length; i++) {
            assertThat(coded.quants()[i]).isEqualTo((byte) (i - 127));
        }
        assertThat(coded.decode()).isEqualTo(w);
    }

    @Test
    void aGroupOfZerosHasScaleZero() {
        Int8Groups int8 = Int8Groups.encode(new float[8], 2, 4, 4);
        assertThat(int8.scales()).containsOnly((short) 0);
        assertThat(int8.quants()).containsOnly((byte) 0);
        for (Fp4Groups coded : new Fp4Groups[] {
            Fp4Groups.encode(new float[6], 2, 3, 2),
            Fp4Groups.encodeMx(new float[6], 2, 3),
            Fp4Groups.encodeNv(new float[6], 2, 3)
        }) {
            assertThat(coded.quants()).containsOnly((byte) 0);
            assertThat(coded.decode()).isEqualTo(new float[6]);
        }
        assertThat(Nf4.encodeDouble(new float[130], 64).decode()).isEqualTo(new float[130]);
        assertThat(Int4Gptq.encode(new float[64], 8, 8, 4).decode()).isEqualTo(new float[64]);
        assertThat(Int4Packed.encode(new float[15], 3, 5, 4, DType.F16).decode())
                .isEqualTo(new float[15]);
    }

    @Test
    void everyFp4CodeComesBackLowNibbleFirst() {
        float[] w = new float[16];
        for (int code = 0; code < 16; code++) {
            w[code] = E2m1.value(code) + 0f;
        }
        byte[] nibbles = {0x10, 0x32, 0x54, 0x76, (byte) 0x90, (byte) 0xba, (byte) 0xdc, (byte) 0xfe};
        for (Fp4Groups coded : new Fp4Groups[] {Fp4Groups.encode(w, 1, 16, 16), Fp4Groups.encodeNv(w, 1, 16)}) {
            assertThat(coded.quants()).isEqualTo(nibbles);
            assertThat(coded.decode()).isEqualTo(w);
        }
        Fp4Groups mx = Fp4Groups.encodeMx(w, 1, 16);
        assertThat(Arrays.copyOf(mx.quants(), 8)).isEqualTo(nibbles);
        assertThat(mx.quants()).hasSize(16);
        assertThat(mx.scales()).containsExactly((byte) 127);
        assertThat(mx.decode()).isEqualTo(w);
    }

    @ParameterizedTest
    @CsvSource({"1, 1", "5, 7", "3, 130", "11, 13", "2, 64"})
    void fp4KeepsOddShapes(int rows, int columns) {
        float[] w = gaussian(rows * columns);
        // The widest gap is 4 to 6, so half of it over the group's largest is a sixth; MX may clip a fourth; and the
        // scale's own rounding adds a little.
        assertRelative(w, Fp4Groups.encode(w, rows, columns, 16).decode(), columns, 16, 0.17f);
        assertRelative(w, Fp4Groups.encodeNv(w, rows, columns).decode(), columns, 16, 0.25f);
        assertRelative(w, Fp4Groups.encodeMx(w, rows, columns).decode(), columns, 32, 0.26f);
    }

    @Test
    void mxfp4IsTheSameNumbersAsInGguf() {
        float[] w = gaussian(256);
        ByteBuffer blocks = ByteBuffer.allocate((int) BlockFormat.MXFP4.bytes(256));
        BlockFormat.MXFP4.encode(w, 0, 256, blocks, 0);
        float[] decoded = new float[256];
        BlockFormat.MXFP4.decode(blocks, 0, decoded, 0, 256);
        assertThat(Fp4Groups.encodeMx(w, 4, 64).decode()).isEqualTo(decoded);
    }

    @Test
    void nf4BlocksAreNf4WithEachMagnitudeBeforeItsCodes() {
        float[] w = gaussian(192);
        Nf4 flat = Nf4.encode(w, 64);
        ByteBuffer blocks =
                ByteBuffer.allocate((int) BlockFormat.NF4.bytes(192)).order(ByteOrder.LITTLE_ENDIAN);
        BlockFormat.NF4.encode(w, 0, 192, blocks, 0);
        for (int block = 0; block < 3; block++) {
            assertThat(blocks.getFloat(36 * block)).isEqualTo(flat.absmax().at(block));
            for (int i = 0; i < 32; i++) {
                assertThat(blocks.get(36 * block + 4 + i)).isEqualTo(flat.quants()[32 * block + i]);
            }
        }
        float[] decoded = new float[192];
        BlockFormat.NF4.decode(blocks, 0, decoded, 0, 192);
        assertThat(decoded).isEqualTo(flat.decode());
        assertThat(BlockFormat.NF4.isInGguf()).isFalse();
        assertThatThrownBy(BlockFormat.NF4::ggufId).isInstanceOf(TensorException.class);
    }

    @Test
    void everyNf4CodeComesBackHighNibbleFirst() {
        Nf4 coded = Nf4.encode(Nf4.quants16(), 64);
        assertThat(coded.quants()).containsExactly(0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef);
        assertThat(coded.decode()).isEqualTo(Nf4.quants16());
    }

    @ParameterizedTest
    @CsvSource({"1, 64", "63, 64", "65, 64", "1000, 64", "70000, 64", "77, 32"})
    void nf4KeepsOddSizes(int size, int block) {
        float[] w = gaussian(size);
        // Half the widest gap of the table, 0.30, and the coarser magnitudes of the double form.
        assertRelative(w, Nf4.encode(w, block).decode(), size, block, 0.153f);
        assertRelative(w, Nf4.encodeDouble(w, block).decode(), size, block, 0.18f);
    }

    @Test
    void doubleQuantizationTakes4127MillibitsAWeight() {
        Nf4 coded = Nf4.encodeDouble(gaussian(64 * 256 * 8), 64);
        Nf4.Absmax.Nested nested = (Nf4.Absmax.Nested) coded.absmax();
        double bits =
                8.0 * (coded.quants().length + nested.quants().length + 4 * nested.absmax().length) / coded.size();
        assertThat(bits).isBetween(4.126, 4.128);
    }

    @Test
    void theDynamicMapAscendsFromMinusToPlusOne() {
        float[] map = Nf4.dynamicMap();
        assertThat(map)
                .hasSize(256)
                .doesNotHaveDuplicates()
                .isSorted()
                .contains(0f)
                .endsWith(1f);
        assertThat(map[0]).isBetween(-1f, -0.99f);
        for (int i = 0; i < 127; i++) {
            assertThat(map[i]).isEqualTo(-map[254 - i]);
        }
    }

    @Test
    void everyInt4CodeComesBack() {
        byte[] quants = new byte[16 * 8];
        byte[] zeros = new byte[8];
        short[] scales = new short[8];
        for (int i = 0; i < quants.length; i++) {
            quants[i] = (byte) ((i + i / 16) % 16);
        }
        for (int o = 0; o < 8; o++) {
            zeros[o] = (byte) (2 * o + 1);
            scales[o] = Float.floatToFloat16(o + 1);
        }
        Int4Gptq gptq = Int4Gptq.pack(quants, 8, 16, zeros, scales, new int[16]);
        for (int o = 0; o < 8; o++) {
            for (int i = 0; i < 16; i++) {
                assertThat(gptq.code(o, i)).isEqualTo(quants[o * 16 + i]);
                assertThat(gptq.decode()[o * 16 + i]).isEqualTo((o + 1f) * (quants[o * 16 + i] - zeros[o]));
            }
            assertThat(gptq.zero(0, o)).isEqualTo(zeros[o]);
        }
        assertThat(gptq.qzeros()).containsExactly(0xeca86420);
        byte[] signed = new byte[3 * 13];
        for (int i = 0; i < signed.length; i++) {
            signed[i] = (byte) (i % 16 - 8);
        }
        Int4Packed packed =
                new Int4Packed(3, 13, Int4Packed.pack(signed, 3, 13), new float[] {1, 1, 1}, new int[0], new int[13]);
        for (int i = 0; i < signed.length; i++) {
            assertThat(packed.code(i / 13, i % 13)).isEqualTo(signed[i]);
        }
    }

    @ParameterizedTest
    @CsvSource({"8, 8, 128", "16, 24, 7", "8, 136, 64"})
    void int4KeepsShapesWithinHalfAStep(int rows, int columns, int group) {
        float[] w = gaussian(rows * columns);
        // A step is 1/7.5 of the largest; the largest positive weight is clipped from 7.5 to 7.
        assertRelative(w, Int4Gptq.encode(w, rows, columns, group).decode(), columns, group, 0.5f / 7.5f + 0.001f);
        assertRelative(
                w,
                Int4Packed.encode(w, rows, columns, group, DType.F16).decode(),
                columns,
                group,
                0.5f / 7.5f + 0.001f);
    }

    static Stream<Arguments> misuses() {
        float[] six = new float[6];
        return Stream.of(
                misuse("too few weights", () -> Int8Groups.encode(six, 2, 4, 4), "expected 8 values, got 6"),
                misuse("no group", () -> Int8Groups.encode(six, 2, 3, 0), "a group above 0"),
                misuse("negative rows", () -> Int8Groups.encode(six, -2, -3, 1), "got -2 x -3"),
                misuse("too large", () -> Int8Groups.encode(six, 1 << 20, 1 << 20, 128), "less than 2^31"),
                misuse("quants too short", () -> new Int8Groups(2, 3, 4, new byte[7], new short[2]), "expected 8"),
                misuse("scales too short", () -> new Int8Groups(2, 3, 4, new byte[8], new short[1]), "expected 2"),
                misuse(
                        "not a number",
                        () -> Int8Groups.encode(new float[] {0, Float.NaN}, 1, 2, 2),
                        "element 1 is NaN"),
                misuse("odd FP4 group", () -> Fp4Groups.encode(six, 2, 3, 3), "an even group, got 3"),
                misuse(
                        "NF4 magnitudes missing",
                        () -> new Nf4(6, 2, new byte[3], new Nf4.Absmax.Plain(new float[2])),
                        "expected 3 values, got 2"),
                misuse("NF4 block 0", () -> Nf4.encode(six, 0), "a block above 0, got 0"),
                misuse(
                        "nested map too short",
                        () -> new Nf4.Absmax.Nested(new byte[1], new float[255], new float[1], 256, 0),
                        "expected 256"),
                misuse("GPTQ not in eights", () -> Int4Gptq.encode(new float[70], 10, 7, 7), "multiples of 8"),
                misuse(
                        "GPTQ group out of range",
                        () -> Int4Gptq.pack(
                                new byte[64], 8, 8, new byte[8], new short[8], new int[] {0, 0, 0, 0, 0, 0, 0, 1}),
                        "group 1, expected 0..0"),
                misuse(
                        "packed group out of range",
                        () -> new Int4Packed(1, 2, new int[1], new float[1], new int[0], new int[] {0, -1}),
                        "group -1"));
    }

    private static Arguments misuse(String what, Supplier<Object> act, String message) {
        return Arguments.of(what, act, message);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("misuses")
    void misuseIsAnError(String what, Supplier<Object> act, String message) {
        assertThatThrownBy(act::get)
                .as(what)
                .isInstanceOf(TensorException.class)
                .hasMessageContaining(message);
    }

    /** Each difference against the largest magnitude of the weight's group. */
    private static void assertRelative(float[] w, float[] back, int columns, int group, float most) {
        assertThat(back).hasSameSizeAs(w);
        for (int i = 0; i < w.length; i++) {
            int row = i / columns * columns;
            int from = row + i % columns / group * group;
            float absmax = CodecMath.absmax(w, from, Math.min(group, row + columns - from));
            assertThat(Math.abs(back[i] - w[i])).as("element %d", i).isLessThanOrEqualTo(most * absmax);
        }
    }

    private static float[] gaussian(int size) {
        float[] w = new float[size];
        for (int i = 0; i < size; i++) {
            w[i] = Philox.normal(3, 4, i);
        }
        return w;
    }
}
