package dev.starforge.tensor.codec;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** The eight-bit and four-bit floats: every code, every rounding boundary. */
final class SmallFloatsTest {
    @ParameterizedTest
    @CsvSource({
        "E4M3, 0x7e, 448",
        "E4M3, 0x01, 0.001953125",
        "E4M3, 0x08, 0.015625",
        "E4M3, 0x38, 1",
        "E4M3, 0xb8, -1",
        "E5M2, 0x7b, 57344",
        "E5M2, 0x01, 0.0000152587890625",
        "E5M2, 0x3c, 1",
        "E5M2, 0x7c, Infinity"
    })
    void landmarks(Fp8 format, String code, float value) {
        assertThat(format.widen(Integer.decode(code).byteValue())).isEqualTo(value);
    }

    @ParameterizedTest
    @EnumSource
    void everyFiniteCodeComesBack(Fp8 format) {
        for (int code = 0; code < 256; code++) {
            float value = format.widen((byte) code);
            if (Float.isFinite(value)) {
                assertThat(format.narrow(value)).as("code %02x", code).isEqualTo((byte) code);
            }
        }
    }

    @ParameterizedTest
    @EnumSource
    void roundsToNearestAndTiesToEven(Fp8 format) {
        for (int code = 0; code < 127; code++) {
            float low = format.widen((byte) code);
            float high = format.widen((byte) (code + 1));
            if (Float.isFinite(high)) {
                float middle = (low + high) / 2;
                assertThat(format.narrow(Math.nextDown(middle))).isEqualTo((byte) code);
                assertThat(format.narrow(Math.nextUp(middle))).isEqualTo((byte) (code + 1));
                assertThat(format.narrow(middle) & 1).isZero();
                assertThat(format.narrow(-Math.nextUp(middle))).isEqualTo((byte) (code + 1 | 0x80));
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"E4M3, 0x7e", "E5M2, 0x7b"})
    void largeValuesSaturateAndNanStaysNan(Fp8 format, String largest) {
        byte top = Integer.decode(largest).byteValue();
        for (float value : new float[] {1e6f, Float.MAX_VALUE, Float.POSITIVE_INFINITY}) {
            assertThat(format.narrow(value)).isEqualTo(top);
            assertThat(format.narrow(-value)).isEqualTo((byte) (top | 0x80));
        }
        assertThat(format.widen(format.narrow(Float.NaN))).isNaN();
    }

    @Test
    void everyPowerOfTwo() {
        for (int exponent = 0; exponent < 255; exponent++) {
            assertThat((double) Fp8.power((byte) exponent)).isEqualTo(Math.pow(2, exponent - 127));
        }
        assertThat(Fp8.power((byte) 255)).isNaN();
    }

    @Test
    void everyE2m1CodeComesBack() {
        float[] magnitudes = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
        for (int code = 0; code < 8; code++) {
            assertThat(E2m1.value(code)).isEqualTo(magnitudes[code]);
            assertThat(E2m1.value(code | 8)).isEqualTo(-magnitudes[code]);
            assertThat(E2m1.nearest(magnitudes[code])).isEqualTo(code);
            assertThat(E2m1.nearest(-magnitudes[code])).isEqualTo(code == 0 ? 0 : code | 8);
        }
    }

    @ParameterizedTest
    @CsvSource({
        "0.25, 0",
        "0.26, 1",
        "0.75, 2",
        "0.74, 1",
        "1.25, 2",
        "1.26, 3",
        "1.75, 4",
        "1.74, 3",
        "2.5, 4",
        "2.51, 5",
        "3.5, 6",
        "3.49, 5",
        "5, 6",
        "5.01, 7",
        "1000, 7",
        "-0.2, 0",
        "-0.3, 9",
        "-5.5, 15"
    })
    void e2m1RoundsTiesToEven(float x, int code) {
        assertThat(E2m1.nearest(x)).isEqualTo(code);
    }
}
