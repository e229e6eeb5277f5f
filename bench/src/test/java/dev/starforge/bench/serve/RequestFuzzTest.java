package dev.starforge.bench.serve;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import org.junit.jupiter.api.Test;

/** The short form of {@code ./dev request-fuzz}. */
final class RequestFuzzTest {
    @Test
    void mutatedRequestsAreAnsweredOrTheirConnectionEnds() throws Exception {
        Map<String, Integer> outcomes = RequestFuzz.run(2_000, 1);
        assertThat(outcomes).containsKeys("200", "400", "404", "408");
        assertThat(outcomes.values().stream().mapToInt(Integer::intValue).sum()).isEqualTo(2_000);
    }
}
