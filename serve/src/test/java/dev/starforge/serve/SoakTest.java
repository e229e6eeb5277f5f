package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.junit.jupiter.api.Test;

/** A few seconds of what {@code ./dev soak} does for minutes to a process of its own. */
final class SoakTest {
    @Test
    void manyClientsLeakNothing() throws Exception {
        assertThat(Soak.run(Duration.ofSeconds(4), 1)).contains("cancelled", "left", "refused", "streamed", "whole");
    }
}
