package dev.starforge.bench.dataset;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Recall and precision of redaction stay above their documented bounds. */
final class SecretsScoreTest {
    @ParameterizedTest
    @ValueSource(strings = {"tune", "held", "fresh", "last"})
    void redactsPlantedSecretsAndNothingElse(String set) throws IOException {
        SecretsScore.Score score = SecretsScore.score(set, SecretsScore.hosts());
        assertThat(score.all().all()).isGreaterThan(300);
        assertThat(score.all().recall()).as("missed: %s", score.all().missed).isGreaterThanOrEqualTo(0.98);
        assertThat(score.wrong()).isEmpty();
        assertThat(score.innocentLines()).isGreaterThan(15_000);
    }
}
