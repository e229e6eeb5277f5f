package dev.starforge.bench.dataset;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Recall and precision of redaction stay above their documented bounds. */
final class SecretsScoreTest {
    @ParameterizedTest
    @CsvSource({"tune, 0.98", "held, 0.98", "fresh, 0.98", "last, 0.98", "declared, 0.98", "blind, 0.96"})
    void redactsPlantedSecretsAndNothingElse(String set, double recall) throws IOException {
        SecretsScore.Score score = SecretsScore.score(set, SecretsScore.hosts());
        assertThat(score.all().all()).isGreaterThan(300);
        assertThat(score.all().recall()).as("missed: %s", score.all().missed).isGreaterThanOrEqualTo(recall);
        assertThat(score.wrong()).isEmpty();
        assertThat(score.innocentLines()).isGreaterThan(15_000);
    }
}
