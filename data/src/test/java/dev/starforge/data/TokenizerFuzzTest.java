package dev.starforge.data;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

final class TokenizerFuzzTest {
    @Test
    void everyDamagedFileEndsInATokenizerOrATypedError() {
        TokenizerFuzz fuzz = new TokenizerFuzz();
        fuzz.run(10_000, 1);
        assertThat(fuzz.accepted()).isGreaterThan(1000);
        assertThat(fuzz.refused()).isGreaterThan(1000);
        assertThat(fuzz.slowestMillis()).isLessThan(10_000);
    }
}
