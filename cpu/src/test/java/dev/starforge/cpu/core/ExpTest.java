package dev.starforge.cpu.core;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.TokenWeights;
import org.junit.jupiter.api.Test;

/** The exponential against {@link StrictMath} in double, over everything that is neither 0 nor infinity, and at the ends. */
final class ExpTest {
    private static float exp(float x) {
        float[] s = new float[Lanes.WIDTH];
        s[Lanes.WIDTH - 1] = x;
        Exp.run(s, 0, Lanes.WIDTH);
        return s[Lanes.WIDTH - 1];
    }

    @Test
    void errorStaysBelowOneUnitInTheLastPlace() {
        int n = 1 << 20;
        float[] s = new float[n];
        for (int i = 0; i < n; i++) {
            s[i] = -104f + 193f * i / n;
        }
        float[] x = s.clone();
        Exp.run(s, 0, n);
        double worst = 0;
        for (int i = 0; i < n; i++) {
            double exact = StrictMath.exp(x[i]);
            if (exact < Float.MAX_VALUE) {
                worst = Math.max(worst, Math.abs(s[i] - exact) / Math.ulp((float) exact));
            }
        }
        assertThat(worst).isLessThan(1);
    }

    /** Sampling is defined with this function to the bit, on every device. */
    @Test
    void equalsTheExpThatSamplingIsDefinedWith() {
        for (float x = -120; x < -0x1p-30f; x *= 0.9999f) {
            assertThat(exp(x)).isEqualTo(TokenWeights.exp(x));
        }
        assertThat(exp(0)).isEqualTo(TokenWeights.exp(0)).isEqualTo(1);
        assertThat(exp(Float.NEGATIVE_INFINITY)).isEqualTo(TokenWeights.exp(Float.NEGATIVE_INFINITY));
    }

    @Test
    void smallArgumentsKeepTheirDigits() {
        for (float x = 0x1p-30f; x < 1; x *= 1.01f) {
            assertThat((double) exp(x)).isBetween(StrictMath.exp(x) * (1 - 1e-7), StrictMath.exp(x) * (1 + 1e-7));
            assertThat((double) exp(-x)).isBetween(StrictMath.exp(-x) * (1 - 1e-7), StrictMath.exp(-x) * (1 + 1e-7));
        }
    }

    @Test
    void theEndsAreExact() {
        assertThat(exp(0)).isEqualTo(1);
        assertThat(exp(-0f)).isEqualTo(1);
        assertThat(exp(Float.NEGATIVE_INFINITY)).isEqualTo(0);
        assertThat(exp(-Float.MAX_VALUE)).isEqualTo(0);
        assertThat(exp(-103.9f)).isEqualTo(Float.MIN_VALUE);
        assertThat(exp(-104.1f)).isEqualTo(0);
        assertThat(exp(88.72f)).isLessThan(Float.POSITIVE_INFINITY);
        assertThat(exp(88.73f)).isEqualTo(Float.POSITIVE_INFINITY);
        assertThat(exp(Float.MAX_VALUE)).isEqualTo(Float.POSITIVE_INFINITY);
        assertThat(exp(Float.POSITIVE_INFINITY)).isEqualTo(Float.POSITIVE_INFINITY);
        assertThat(exp(Float.NaN)).isNaN();
    }
}
