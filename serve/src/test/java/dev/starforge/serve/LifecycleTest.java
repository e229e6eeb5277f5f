package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.log.EventLog;
import java.io.IOException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;

/** How a worker begins, how it is, and how it ends. */
final class LifecycleTest {
    private static final String JOB = "{'job_id':'j','prompt':'x','max_tokens':50}";

    @Test
    void healthSaysWhatIsServed() throws Exception {
        try (Fixture fixture = new Fixture()) {
            JsonNode health = fixture.get("/health").json();
            assertThat(health.get("status").stringValue()).isEqualTo("ok");
            assertThat(health.get("model").stringValue()).isEqualTo("fake");
            assertThat(health.get("quantization").stringValue()).isEqualTo("Q4_K");
            assertThat(health.get("memory_bytes").longValue()).isEqualTo(123_456);
            assertThat(health.get("vocabulary").intValue()).isEqualTo(FakeEngine.TOKENIZER.size());
            assertThat(health.get("context").intValue()).isEqualTo(4096);
            assertThat(health.get("uptime_seconds").intValue()).isNotNegative();
            assertThat(health.get("free_slots").intValue()).isEqualTo(32);
            assertThat(health.get("capabilities").toString())
                    .isEqualTo("[\"completion\",\"embedding\",\"lora\",\"infill\",\"chat\"]");
        }
    }

    @Test
    void aWorkerListensWhileItLoads() throws Exception {
        try (FakeEngine engine = new FakeEngine();
                Worker worker = Worker.start(
                        WorkerOptions.local("w", "m", 0), EventLog.silent(), Clock.systemUTC(), new Random(1));
                HttpClient client = HttpClient.newHttpClient()) {
            worker.progress(40);
            assertThat(ask(client, worker, "/health"))
                    .startsWith("200")
                    .contains("loading")
                    .contains("\"progress\":40");
            assertThat(ask(client, worker, "/ready")).startsWith("503").contains("loading");
            assertThat(ask(client, worker, "/v1/models")).startsWith("503").contains("still loading");
            assertThat(ask(client, worker, "/metrics")).startsWith("200");
            worker.open(engine);
            assertThat(ask(client, worker, "/ready")).startsWith("200").contains("ok");
            assertThat(ask(client, worker, "/v1/models")).startsWith("200");
        }
    }

    private static String ask(HttpClient client, Worker worker, String path) throws IOException, InterruptedException {
        var response =
                client.send(HttpRequest.newBuilder(worker.uri().resolve(path)).build(), BodyHandlers.ofString());
        return response.statusCode() + " " + response.body();
    }

    @Test
    void deepHealthAsksForAToken() throws Exception {
        try (Fixture fixture = new Fixture()) {
            assertThat(fixture.get("/health/deep").status()).isEqualTo(200);
            assertThat(fixture.engine.computed()).isEqualTo(1);
        }
    }

    /** The engine thread has died without a report: only generating a token detects it. */
    @Test
    void deepHealthFailsWhenTheEngineIsDead() throws Exception {
        try (Fixture fixture = new Fixture(
                new FakeEngine(), options -> options.withTimes(Duration.ofSeconds(5), Duration.ofSeconds(1)))) {
            fixture.engine.failAt(0, FinishReason.FailureKind.INFERENCE_FAILED);
            Fixture.Reply failing = fixture.get("/health/deep");
            assertThat(failing.status()).isEqualTo(503);
            assertThat(failing.json().at("/error/code").stringValue()).isEqualTo("INFERENCE_FAILED");
            fixture.engine.die(true);
            assertThat(fixture.get("/health").json().get("status").stringValue())
                    .isEqualTo("failed");
            assertThat(fixture.get("/health/deep").status()).isEqualTo(503);
            assertThat(fixture.get("/ready").status()).isEqualTo(503);
            assertThat(fixture.post("/execute", JOB).status()).isEqualTo(503);
        }
    }

    @Test
    void shutdownLetsRunningWorkFinish() throws Exception {
        try (Fixture fixture = new Fixture();
                RawClient client = fixture.raw()) {
            fixture.engine.hold(3);
            client.post("/execute", Fixture.quoted(JOB)).openStream().event();
            assertThat(fixture.post("/shutdown", "").status()).isEqualTo(202);
            assertThat(fixture.get("/health").json().get("status").stringValue())
                    .isEqualTo("draining");
            assertThat(fixture.get("/ready").status()).isEqualTo(503);
            Fixture.Reply refused = fixture.post("/execute", JOB);
            assertThat(refused.status()).isEqualTo(503);
            assertThat(refused.header("Retry-After")).isNotEmpty();
            fixture.engine.release();
            String last = client.event();
            while (!last.contains("\"type\":\"end\"")) {
                last = client.event();
            }
            assertThat(last).contains("EOS");
            fixture.worker.await();
            assertThat(fixture.worker.connections()).isZero();
        }
    }

    @Test
    void shutdownDoesNotWaitForEver() throws Exception {
        try (Fixture fixture = new Fixture(
                        new FakeEngine(),
                        options -> options.withTimes(Duration.ofSeconds(60), Duration.ofMillis(100)));
                RawClient client = fixture.raw()) {
            fixture.engine.hold(1);
            client.post("/execute", Fixture.quoted(JOB)).openStream().event();
            client.event();
            fixture.worker.drain();
            assertThat(client.event()).contains("CANCELLED");
            assertThat(fixture.engine.live()).isZero();
        }
    }

    /** 32 streams, prompts of a megabyte being tokenized, and a health check every few milliseconds. */
    @Test
    void healthIsQuickUnderLoad() throws Exception {
        try (Fixture fixture = new Fixture()) {
            fixture.engine.step(Duration.ofMillis(2)).reply("word ".repeat(500));
            List<RawClient> busy = new ArrayList<>();
            for (int i = 0; i < 32; i++) {
                RawClient client = fixture.raw();
                busy.add(client.post(
                        "/execute", Fixture.quoted("{'job_id':'" + i + "','prompt':'x','max_tokens':2000}")));
            }
            String large = Fixture.quoted("{'content':'" + "some words of it, ".repeat(60_000) + "'}");
            for (int i = 0; i < 4; i++) {
                RawClient client = fixture.raw();
                busy.add(client.post("/tokenize", large));
            }
            List<Long> times = new ArrayList<>();
            try (RawClient client = fixture.raw()) {
                for (int i = 0; i < 200; i++) {
                    long begin = System.nanoTime();
                    assertThat(client.get("/health").reply().status()).isEqualTo(200);
                    times.add(System.nanoTime() - begin);
                    Thread.sleep(2);
                }
            }
            for (RawClient client : busy) {
                client.close();
            }
            long[] sorted = times.stream().mapToLong(Long::longValue).sorted().toArray();
            double p50 = sorted[sorted.length / 2] / 1e6;
            double p99 = sorted[sorted.length * 99 / 100] / 1e6;
            System.out.printf("/health under load: p50 %.2f ms, p99 %.2f ms%n", p50, p99);
            assertThat(p50).isLessThan(10);
        }
    }

    @Test
    void metricsCountWhatHappened() throws Exception {
        try (Fixture fixture = new Fixture()) {
            fixture.events("/execute", JOB);
            fixture.events("/execute", "{'job_id':'j','prompt':'x','max_tokens':2}");
            fixture.post("/execute", "{}");
            fixture.engine.full(true);
            fixture.post("/execute", JOB);
            fixture.engine.full(false).failAt(0, FinishReason.FailureKind.OUT_OF_MEMORY);
            fixture.post("/execute", JOB);
            Fixture.Reply reply = fixture.get("/metrics");
            assertThat(reply.header("content-type")).isEqualTo("text/plain; version=0.0.4; charset=utf-8");
            String text = reply.response().body();
            int tokens = fixture.engine.computed();
            assertThat(text.lines())
                    .contains(
                            "worker_requests_total{outcome=\"ok\"} 2",
                            "worker_requests_total{outcome=\"invalid\"} 1",
                            "worker_requests_total{outcome=\"rejected\"} 1",
                            "worker_requests_total{outcome=\"out_of_memory\"} 1",
                            "worker_requests_total{outcome=\"cancelled\"} 0",
                            "worker_tokens_generated_total " + tokens,
                            "worker_memory_bytes 123456",
                            "vllm:num_requests_running{model_name=\"fake\"} 0",
                            "vllm:num_requests_waiting{model_name=\"fake\"} 0",
                            "vllm:kv_cache_usage_perc{model_name=\"fake\"} 0",
                            "vllm:prefix_cache_queries_total{model_name=\"fake\"} 100",
                            "vllm:prefix_cache_hits_total{model_name=\"fake\"} 40",
                            "vllm:num_preemptions_total{model_name=\"fake\"} 3",
                            "vllm:request_success_total{model_name=\"fake\",finished_reason=\"stop\"} 1",
                            "vllm:request_success_total{model_name=\"fake\",finished_reason=\"length\"} 1",
                            "vllm:request_success_total{model_name=\"fake\",finished_reason=\"abort\"} 1",
                            "vllm:time_to_first_token_seconds_count{model_name=\"fake\"} 2",
                            "vllm:inter_token_latency_seconds_count{model_name=\"fake\"} " + (tokens - 2),
                            "vllm:e2e_request_latency_seconds_count{model_name=\"fake\"} 3",
                            "worker_inference_duration_ms_count 3",
                            "worker_inference_duration_ms_bucket{le=\"+Inf\"} 3")
                    .anyMatch(line -> line.startsWith("worker_prompt_tokens_total "))
                    .anyMatch(line -> line.startsWith("worker_uptime_seconds "))
                    .anyMatch(line -> line.startsWith("worker_tokens_per_second "));
            assertExposition(text);
        }
    }

    /** Families announced once, before their samples; buckets that only grow; sum and count. */
    private static void assertExposition(String text) {
        assertThat(text).endsWith("\n");
        String family = "";
        double bucket = 0;
        List<String> seen = new ArrayList<>();
        for (String line : text.split("\n")) {
            if (line.startsWith("# HELP ")) {
                family = line.split(" ")[2];
                assertThat(seen).doesNotContain(family);
                seen.add(family);
                bucket = 0;
            } else if (line.startsWith("# TYPE ")) {
                assertThat(line).matches("# TYPE " + family + " (counter|gauge|histogram)");
            } else {
                assertThat(line).matches("[a-z_:0-9]+(\\{[a-z_]+=\"[^\"]*\"(,[a-z_]+=\"[^\"]*\")*})? [-+.0-9eE]+");
                assertThat(line).startsWith(family);
                if (line.contains("_bucket{")) {
                    double count = Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1));
                    assertThat(count).isGreaterThanOrEqualTo(bucket);
                    bucket = count;
                }
            }
        }
        assertThat(seen).hasSize(17);
    }

    @Test
    void nothingLeaks() throws Exception {
        try (Fixture fixture = new Fixture()) {
            for (int i = 0; i < 50; i++) {
                fixture.events("/execute", "{'job_id':'" + i + "','prompt':'x','max_tokens':5}");
            }
            assertThat(fixture.engine.live()).isZero();
            assertThat(fixture.worker.connections()).isLessThanOrEqualTo(2);
            fixture.worker.drain();
            assertThat(fixture.worker.connections()).isZero();
        }
    }
}
