package dev.starforge.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import org.junit.jupiter.api.Test;

final class TokenWeightsTest {
    private static final int SITE = 0x73616d70;

    @Test
    void theExponentialErrorIsBelowOneUlp() {
        for (float z = -0x1p-20f; z > -87; z *= 1.0003f) {
            double exact = StrictMath.exp(z);
            assertThat(Math.abs(TokenWeights.exp(z) - exact)).isLessThan(Math.ulp((float) exact));
        }
        assertThat(TokenWeights.weight(0)).isEqualTo(TokenWeights.ONE);
        assertThat(TokenWeights.weight(Float.NEGATIVE_INFINITY)).isZero();
    }

    @Test
    void aWeightIsExactAsAFloat() {
        for (float z = -0x1p-20f; z > -30; z *= 1.0003f) {
            long weight = TokenWeights.weight(z);
            assertThat((long) (float) weight).isEqualTo(weight);
        }
    }

    /** Of five equal tokens at top-p 0.8 HF leaves four, though 1 - 0.8f is less than a fifth. */
    @Test
    void ties() {
        long total = 5 * TokenWeights.ONE;
        assertThat(TokenWeights.leaving((float) (1 - 0.8), total))
                .isBetween(3 * TokenWeights.ONE, 4 * TokenWeights.ONE);
        assertThat(TokenWeights.reaching(0.8f, total)).isBetween(3 * TokenWeights.ONE, 4 * TokenWeights.ONE);
        assertThat(TokenWeights.leaving(1, total)).isEqualTo(1);
        assertThat(TokenWeights.reaching(1, total)).isGreaterThan(4 * TokenWeights.ONE);
    }

    @Test
    void aDrawIsAUniformTimesTheTotal() {
        long seed = 0x123456789abcdefL;
        for (int index = 0; index < 1000; index++) {
            double u = Philox.uniform(seed, SITE, index);
            assertThat(TokenWeights.draw(seed, index, 1L << 24)).isEqualTo((long) (u * (1 << 24)));
            long total = TokenWeights.ONE / 4 * 3 * TokenWeights.MAX_VOCABULARY;
            assertThat((double) TokenWeights.draw(seed, index, total)).isCloseTo(u * total, within(1e-12 * total));
        }
    }
}
