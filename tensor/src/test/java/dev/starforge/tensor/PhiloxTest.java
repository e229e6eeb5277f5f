package dev.starforge.tensor;

import static org.assertj.core.api.Assertions.assertThat;

import org.assertj.core.data.Offset;
import org.junit.jupiter.api.Test;

/** Known answers are those of Random123's {@code kat_vectors}, philox4x32-10. */
final class PhiloxTest {
    @Test
    void knownAnswers() {
        assertThat(Philox.words(0, 0, 0, 0, 0, 0)).containsExactly(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
        assertThat(Philox.words(-1, -1, -1, -1, -1, -1))
                .containsExactly(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
        assertThat(Philox.words(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0))
                .containsExactly(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
    }

    @Test
    void uniformsFillTheUnitIntervalEvenly() {
        int[] bins = new int[10];
        int n = 100_000;
        for (int i = 0; i < n; i++) {
            float u = Philox.uniform(7, 3, i);
            assertThat(u).isGreaterThanOrEqualTo(0).isLessThan(1);
            bins[(int) (10 * u)]++;
        }
        for (int bin : bins) {
            assertThat(bin).isCloseTo(n / 10, Offset.offset(400)); // four standard deviations
        }
    }

    @Test
    void normalsHaveTheRightMoments() {
        int n = 100_000;
        double[] moments = new double[5];
        for (int i = 0; i < n; i++) {
            double x = Philox.normal(7, 3, i);
            for (int k = 1; k <= 4; k++) {
                moments[k] += Math.pow(x, k) / n;
            }
        }
        assertThat(moments[1]).isCloseTo(0, Offset.offset(0.013)); // four standard deviations each
        assertThat(moments[2]).isCloseTo(1, Offset.offset(0.018));
        assertThat(moments[3]).isCloseTo(0, Offset.offset(0.05));
        assertThat(moments[4]).isCloseTo(3, Offset.offset(0.13));
    }

    @Test
    void everyCoordinateMatters() {
        float value = Philox.normal(1, 2, 3);
        assertThat(Philox.normal(1, 2, 3)).isEqualTo(value);
        assertThat(Philox.normal(2, 2, 3)).isNotEqualTo(value);
        assertThat(Philox.normal(1L << 32 | 1, 2, 3)).isNotEqualTo(value);
        assertThat(Philox.normal(1, 3, 3)).isNotEqualTo(value);
        assertThat(Philox.normal(1, 2, 4)).isNotEqualTo(value);
        assertThat(Philox.normal(1, 2, 1L << 32 | 3)).isNotEqualTo(value);
    }
}
