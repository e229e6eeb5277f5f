package dev.starforge.bench.serve;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.Fixture;
import dev.starforge.text.json.Jackson;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.node.ObjectNode;

/** The report of the load test, with a fake engine and a shell script in place of nvidia-smi. */
final class ServerLoadTest {
    private static final List<String> BUSY_THEN_IDLE =
            List.of("sh", "-c", "echo No devices; while :; do echo ' 90'; sleep 0.02; echo 70; sleep 0.02; done");

    private static ObjectNode run(GpuMeter meter) throws Exception {
        try (Fixture fixture = new Fixture()) {
            fixture.engine.step(Duration.ofMillis(30));
            URI server = URI.create("http://127.0.0.1:" + fixture.port() + "/");
            ObjectNode report = new ServerLoad(server, 3, 24, 40, meter).run();
            assertThat(fixture.engine.requests)
                    .as("to warm up, loaded, joined, and the long prompt three times")
                    .hasSize(3 + 3 + 3 + 3);
            return report;
        }
    }

    @Test
    void gpuUtilizationIsSampledWhileAllStreamsRun() throws Exception {
        try (GpuMeter meter = GpuMeter.start(BUSY_THEN_IDLE, Duration.ZERO)) {
            ObjectNode report = run(meter);
            assertThat(report.path("streams").intValue()).isEqualTo(3);
            assertThat(report.path("gpu_samples").intValue()).isGreaterThan(1);
            assertThat(report.path("gpu_busy_mean").doubleValue()).isBetween(75.0, 85.0);
            assertThat(report.path("gpu_busy_share_85").doubleValue()).isBetween(0.25, 0.75);
        }
    }

    @Test
    void samplesOfALongerIntervalDoNotCount() throws Exception {
        try (GpuMeter meter = GpuMeter.start(BUSY_THEN_IDLE, Duration.ofHours(1))) {
            ObjectNode report = run(meter);
            assertThat(report.path("gpu_samples").intValue()).isZero();
            assertThat(report.has("gpu_busy_mean")).isFalse();
        }
    }

    @Test
    void withoutNvidiaSmiNothingIsReported() {
        try (GpuMeter meter = GpuMeter.start(List.of("no-such-program"), Duration.ZERO)) {
            ObjectNode report = Jackson.object();
            meter.report(report, Long.MIN_VALUE, Long.MAX_VALUE);
            assertThat(report.isEmpty()).isTrue();
        }
    }
}
