package dev.starforge.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** All 65536 patterns of both 16-bit types, against the formula of IEEE 754 written out. */
final class DTypeTest {
    private static final String TYPES = "F16|BF16";

    private static int mantissaBits(DType type) {
        return type == DType.F16 ? 10 : 7;
    }

    /** sign * 1.mantissa * 2^(exponent - bias), exact in double. */
    private static double value(DType type, int bits) {
        int m = mantissaBits(type);
        int exponentBits = 15 - m;
        int bias = (1 << exponentBits - 1) - 1;
        int exponent = bits >> m & (1 << exponentBits) - 1;
        double mantissa = bits & (1 << m) - 1;
        double sign = (bits & 0x8000) == 0 ? 1 : -1;
        if (exponent == (1 << exponentBits) - 1) {
            return mantissa == 0 ? sign * Double.POSITIVE_INFINITY : Double.NaN;
        }
        return exponent == 0
                ? sign * Math.scalb(mantissa, 1 - bias - m)
                : sign * Math.scalb(mantissa + (1 << m), exponent - bias - m);
    }

    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.MATCH_ALL, names = TYPES)
    void widensEveryPatternExactly(DType type) {
        for (int bits = 0; bits < 65536; bits++) {
            assertThat(Double.doubleToLongBits(type.widen((short) bits)))
                    .as("%04x", bits)
                    .isEqualTo(Double.doubleToLongBits(value(type, bits)));
        }
    }

    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.MATCH_ALL, names = TYPES)
    void narrowsWhatItWidened(DType type) {
        for (int bits = 0; bits < 65536; bits++) {
            float wide = type.widen((short) bits);
            short narrow = type.narrow(wide);
            if (Float.isNaN(wide)) {
                assertThat(type.widen(narrow)).as("%04x", bits).isNaN();
            } else {
                assertThat(narrow).as("%04x", bits).isEqualTo((short) bits);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.MATCH_ALL, names = TYPES)
    void roundsToNearestAndTiesToEven(DType type) {
        int infinity = type == DType.F16 ? 0x7c00 : 0x7f80;
        for (int sign : new int[] {0, 0x8000}) {
            for (int low = 0; low + 1 < infinity; low++) {
                float middle = (float) ((value(type, sign | low) + value(type, sign | low + 1)) / 2);
                int even = sign | (low % 2 == 0 ? low : low + 1);
                float away = sign == 0 ? Float.POSITIVE_INFINITY : Float.NEGATIVE_INFINITY;
                assertThat(type.narrow(middle)).as("%04x", sign | low).isEqualTo((short) even);
                assertThat(type.narrow(Math.nextAfter(middle, 0))).isEqualTo((short) (sign | low));
                assertThat(type.narrow(Math.nextAfter(middle, away))).isEqualTo((short) (sign | low + 1));
            }
        }
    }

    @Test
    void overflowsToInfinityHalfwayPastTheLargest() {
        assertThat(DType.F16.narrow(65519.99f)).isEqualTo((short) 0x7bff);
        assertThat(DType.F16.narrow(65520f)).isEqualTo((short) 0x7c00);
        assertThat(DType.F16.narrow(-1e30f)).isEqualTo((short) 0xfc00);
        assertThat(DType.BF16.narrow(Float.intBitsToFloat(0x7f7f7fff))).isEqualTo((short) 0x7f7f);
        assertThat(DType.BF16.narrow(Float.intBitsToFloat(0x7f7f8000))).isEqualTo((short) 0x7f80);
        assertThat(DType.BF16.narrow(-Float.MAX_VALUE)).isEqualTo((short) 0xff80);
    }

    @Test
    void aNanStaysANanWhateverItsPayload() {
        for (int payload : new int[] {0x7f800001, 0x7fffffff, 0xff800001, 0xffffffff, 0x7fc00000, 0x7f80ffff}) {
            float nan = Float.intBitsToFloat(payload);
            assertThat(DType.BF16.widen(DType.BF16.narrow(nan)))
                    .as("%08x", payload)
                    .isNaN();
            assertThat(DType.F16.widen(DType.F16.narrow(nan)))
                    .as("%08x", payload)
                    .isNaN();
        }
    }

    @Test
    void onlySixteenBitTypesAreNarrow() {
        assertThatThrownBy(() -> DType.F32.narrow(1)).isInstanceOf(ShapeException.class);
        assertThatThrownBy(() -> DType.I32.widen((short) 1)).isInstanceOf(ShapeException.class);
    }
}
