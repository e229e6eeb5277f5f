package dev.starforge.bench.serve;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.Fixture;
import dev.starforge.text.json.Jackson;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.node.ObjectNode;

/** What the load test says, of a server that is not loaded and a GPU that is a shell. */
final class ServerLoadTest {
    private static final List<String> BUSY_THEN_IDLE =
            List.of("sh", "-c", "echo No devices; while :; do echo ' 90'; sleep 0.02; echo 70; sleep 0.02; done");

    private static ObjectNode run(GpuMeter meter) throws Exception {
        try (Fixture fixture = new Fixture()) {
            fixture.engine.step(Duration.ofMillis(30));
            URI server = URI.create("http://127.0.0.1:" + fixture.port() + "/");
            ObjectNode said = new ServerLoad(server, 3, 24, 40, meter).run();
            assertThat(fixture.engine.requests)
                    .as("to warm up, loaded, joined, and the long prompt three times")
                    .hasSize(3 + 3 + 3 + 3);
            return said;
        }
    }

    @Test
    void theGpuIsLookedAtWhileAllStreamsRun() throws Exception {
        try (GpuMeter meter = GpuMeter.start(BUSY_THEN_IDLE, Duration.ZERO)) {
            ObjectNode said = run(meter);
            assertThat(said.path("streams").intValue()).isEqualTo(3);
            assertThat(said.path("gpu_samples").intValue()).isGreaterThan(1);
            assertThat(said.path("gpu_busy_mean").doubleValue()).isBetween(75.0, 85.0);
            assertThat(said.path("gpu_busy_share_85").doubleValue()).isBetween(0.25, 0.75);
        }
    }

    @Test
    void aSampleThatLooksBackAtSomethingElseDoesNotCount() throws Exception {
        try (GpuMeter meter = GpuMeter.start(BUSY_THEN_IDLE, Duration.ofHours(1))) {
            ObjectNode said = run(meter);
            assertThat(said.path("gpu_samples").intValue()).isZero();
            assertThat(said.has("gpu_busy_mean")).isFalse();
        }
    }

    @Test
    void withoutAMeterNothingIsSaid() {
        try (GpuMeter meter = GpuMeter.start(List.of("no-such-program"), Duration.ZERO)) {
            ObjectNode said = Jackson.object();
            meter.report(said, Long.MIN_VALUE, Long.MAX_VALUE);
            assertThat(said.isEmpty()).isTrue();
        }
    }
}
