package dev.starforge.bench.dataset;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.dataset.SecretsCorpus;
import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Redaction as a classifier does not fall below what was promised. */
final class SecretsScoreTest {
    @ParameterizedTest
    @ValueSource(strings = {"tune", "held", "fresh", "last"})
    void plantedSecretsGoAndNothingElse(String set) throws IOException {
        SecretsScore.Score score = SecretsScore.score(set, SecretsCorpus.hosts(Path.of("..", "data")));
        assertThat(score.all().all()).isGreaterThan(300);
        assertThat(score.all().recall()).as("missed: %s", score.all().missed).isGreaterThanOrEqualTo(0.98);
        assertThat(score.wrong()).isEmpty();
        assertThat(score.innocentLines()).isGreaterThan(15_000);
    }
}
