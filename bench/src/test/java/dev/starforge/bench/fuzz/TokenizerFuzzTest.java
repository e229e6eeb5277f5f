package dev.starforge.bench.fuzz;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class TokenizerFuzzTest {
    @Test
    void mutatedFilesGiveATokenizerOrATypedError(@TempDir Path folder) throws IOException {
        TokenizerFuzz fuzz = new TokenizerFuzz(folder);
        fuzz.run(10_000, 1);
        assertThat(fuzz.accepted()).isGreaterThan(1000);
        assertThat(fuzz.refused()).isGreaterThan(1000);
        assertThat(fuzz.slowestMillis()).isLessThan(10_000);
    }
}
