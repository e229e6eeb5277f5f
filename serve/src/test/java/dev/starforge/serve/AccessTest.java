package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.serve.http.HttpLimits;
import dev.starforge.serve.log.EventLog;
import dev.starforge.text.json.Jackson;
import java.net.InetSocketAddress;
import java.time.Clock;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.JsonNode;

/** Who is heard, how many at once, and what of it is written down. */
final class AccessTest {
    private static final String KEY = "sk-test-0123456789abcdef";

    private static Fixture locked() throws Exception {
        return new Fixture(new FakeEngine(), options -> options.withKeys(List.of("another-key", KEY)));
    }

    @Test
    void everyPathButHealthAndThePageNeedsTheKey() throws Exception {
        List<String> open = List.of("/health", "/", "/page/look.css");
        try (Fixture fixture = locked()) {
            for (String path : open) {
                assertThat(fixture.get(path).status()).as(path).isEqualTo(200);
            }
            for (String operation : fixture.worker.operations()) {
                String path = operation.split(" ")[1].replace("{id}", operation.contains("/page/") ? "look.css" : "x");
                if (open.contains(path)) {
                    continue;
                }
                for (String given : List.of(
                        "",
                        "Bearer",
                        "Bearer ",
                        "Bearer x",
                        "Bearer " + KEY + "x",
                        "Basic " + KEY,
                        KEY,
                        "Bearer sk-test-0123456789abcdeF")) {
                    String[] headers = given.isEmpty() ? new String[0] : new String[] {"Authorization", given};
                    Fixture.Reply reply = operation.startsWith("GET")
                            ? fixture.get(path, headers)
                            : fixture.post(path, "{}", headers);
                    assertThat(reply.status()).as(operation + " with " + given).isEqualTo(401);
                    assertThat(reply.header("WWW-Authenticate")).isEqualTo("Bearer");
                    assertThat(reply.json().at("/error/code").stringValue()).isEqualTo("invalid_api_key");
                }
            }
            assertThat(fixture.get("/nowhere").status()).isEqualTo(401);
            assertThat(fixture.get("/v1/models", "Authorization", "bearer " + KEY)
                            .status())
                    .isEqualTo(200);
            assertThat(fixture.get("/v1/models", "Authorization", "Bearer another-key")
                            .status())
                    .isEqualTo(200);
        }
    }

    @Test
    void tenantsAreDistinguishedByTheirKeys() throws Exception {
        try (Fixture fixture = locked()) {
            for (String key : List.of(KEY, "another-key", KEY)) {
                fixture.post("/v1/completions", "{'prompt':'x'}", "Authorization", "Bearer " + key);
            }
            List<String> tenants = fixture.engine.requests.stream()
                    .map(request -> request.tenant())
                    .toList();
            assertThat(tenants.get(0))
                    .isEqualTo(tenants.get(2))
                    .isNotEqualTo(tenants.get(1))
                    .doesNotContain(KEY);
        }
    }

    @Test
    void anAdminNamesTenantsAndClientsDoNot() throws Exception {
        String named = "0f".repeat(32);
        try (Fixture fixture =
                new Fixture(new FakeEngine(), options -> options.withKeys(List.of(KEY), List.of("admin-key")))) {
            for (String[] request : List.of(
                    new String[] {"admin-key", named},
                    new String[] {"admin-key", "none"},
                    new String[] {"admin-key", "../" + named},
                    new String[] {KEY, named})) {
                Fixture.Reply reply = fixture.post(
                        "/v1/completions",
                        "{'prompt':'x'}",
                        "Authorization",
                        "Bearer " + request[0],
                        "X-Starforge-Tenant",
                        request[1]);
                assertThat(reply.status()).isEqualTo(200);
            }
            List<String> tenants = fixture.engine.requests.stream()
                    .map(request -> request.tenant())
                    .toList();
            assertThat(tenants.get(0)).isEqualTo(named);
            assertThat(tenants.get(1)).isEmpty();
            assertThat(tenants.get(2)).hasSize(64).isNotEqualTo(named);
            assertThat(tenants.get(3)).hasSize(64).isNotEqualTo(named).isNotEqualTo(tenants.get(2));
        }
    }

    @Test
    void shuttingDownNeedsAnAdminKeyWhereThereAreKeys() throws Exception {
        try (Fixture fixture = locked()) {
            Fixture.Reply reply = fixture.post("/shutdown", "", "Authorization", "Bearer " + KEY);
            assertThat(reply.status()).isEqualTo(403);
            assertThat(reply.json().at("/error/code").stringValue()).isEqualTo("admin_key_required");
        }
        try (Fixture fixture =
                new Fixture(new FakeEngine(), options -> options.withKeys(List.of(KEY), List.of("admin-key")))) {
            assertThat(fixture.post("/shutdown", "", "Authorization", "Bearer " + KEY)
                            .status())
                    .isEqualTo(403);
            assertThat(fixture.post("/shutdown", "").status()).isEqualTo(401);
            assertThat(fixture.post("/shutdown", "", "Authorization", "Bearer admin-key")
                            .status())
                    .isEqualTo(202);
        }
    }

    @Test
    void anotherAddressNeedsAKey() {
        WorkerOptions open = WorkerOptions.local("w", "m", 0).withAddress(new InetSocketAddress("0.0.0.0", 0));
        assertThatThrownBy(() -> Worker.start(open, EventLog.silent(), Clock.systemUTC(), new Random(1)))
                .hasMessageContaining("--api-key-file")
                .hasMessageContaining("0.0.0.0");
        assertThatThrownBy(() -> open.withKeys(List.of(" "))).hasMessageContaining("blank");
    }

    @Test
    void anyAddressIsAllowedWithAKey() throws Exception {
        WorkerOptions open = WorkerOptions.local("w", "m", 0)
                .withAddress(new InetSocketAddress("0.0.0.0", 0))
                .withKeys(List.of(KEY));
        try (Worker worker = Worker.start(open, EventLog.silent(), Clock.systemUTC(), new Random(1));
                RawClient client = new RawClient(worker.uri().getPort())) {
            assertThat(client.get("/health").reply().status()).isEqualTo(200);
        }
    }

    /** A page of another site makes the browser ask, or makes a name of its own point to this machine. */
    @ParameterizedTest
    @CsvSource({
        "403, evil.example, ",
        "403, evil.example:8080, ",
        "403, 127.0.0.1.evil.example, ",
        "403, 127.0.0.1:8080, https://evil.example",
        "403, 127.0.0.1:8080, null",
        "403, 127.0.0.1:8080, http://127.0.0.1:9999",
        "200, 127.0.0.1:8080, http://127.0.0.1:8080",
        "200, localhost:8080, ",
        "200, LOCALHOST, ",
        "200, [::1]:8080, ",
        "200, 127.0.0.1, ",
    })
    void requestsOfWebPagesAreRejectedWithoutAKey(int status, String host, String origin) throws Exception {
        try (Fixture fixture = new Fixture();
                RawClient client = fixture.raw()) {
            client.send("GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\n"
                    + (origin == null ? "" : "Origin: " + origin + "\r\n") + "\r\n");
            assertThat(client.reply().status()).isEqualTo(status);
        }
    }

    @Test
    void pathsAndMethods() throws Exception {
        try (Fixture fixture = new Fixture()) {
            Fixture.Reply missing = fixture.get("/nowhere");
            assertThat(missing.status()).isEqualTo(404);
            assertThat(missing.json().at("/error/type").stringValue()).isEqualTo("not_found_error");
            Fixture.Reply wrong = fixture.get("/execute");
            assertThat(wrong.status()).isEqualTo(405);
            assertThat(wrong.header("Allow")).isEqualTo("POST");
        }
    }

    @Test
    void correlation() throws Exception {
        try (Fixture fixture = new Fixture()) {
            assertThat(fixture.get("/health", "X-Correlation-ID", "abc-1").header("X-Correlation-ID"))
                    .isEqualTo("abc-1");
            assertThat(fixture.post("/execute", "{}", "X-Correlation-ID", "abc-2")
                            .header("X-Correlation-ID"))
                    .isEqualTo("abc-2");
            assertThat(fixture.get("/nowhere", "X-Correlation-ID", "abc-3").header("X-Correlation-ID"))
                    .isEqualTo("abc-3");
            String made = fixture.get("/health").header("X-Correlation-ID");
            assertThat(made)
                    .matches("[0-9a-f]{32}")
                    .isNotEqualTo(fixture.get("/health").header("X-Correlation-ID"));
            assertThat(fixture.get("/health", "X-Correlation-ID", "x".repeat(200))
                            .header("X-Correlation-ID"))
                    .hasSize(32);
        }
    }

    @Test
    void concurrentRequestsAreLimited() throws Exception {
        try (Fixture fixture = new Fixture(new FakeEngine(), options -> options.withLimits(HttpLimits.DEFAULT, 2))) {
            fixture.engine.hold(0);
            List<RawClient> busy = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                RawClient client = fixture.raw();
                busy.add(client.post("/execute", Fixture.quoted("{'job_id':'" + i + "','prompt':'x','max_tokens':5}")));
            }
            Fixture.await("both run", () -> fixture.engine.live() == 2);
            Fixture.Reply third = fixture.post("/v1/completions", "{'prompt':'x'}");
            assertThat(third.status()).isEqualTo(429);
            assertThat(third.header("Retry-After")).isEqualTo("1");
            assertThat(fixture.get("/health").status()).isEqualTo(200);
            assertThat(fixture.get("/metrics").response().body())
                    .contains("worker_requests_total{outcome=\"rejected\"} 1\n");
            assertThat(fixture.post("/cancel", "{'job_id':'0'}").status()).isEqualTo(202);
            busy.get(1).close();
            Fixture.await("both have ended", () -> fixture.engine.live() == 0);
            fixture.engine.release();
            Fixture.await("their places are free", () -> {
                try {
                    return fixture.post("/v1/completions", "{'prompt':'x'}").status() == 200;
                } catch (Exception failure) {
                    throw new AssertionError(failure);
                }
            });
            busy.get(0).close();
        }
    }

    /** A client that does not read meanwhile does not slow the engine, nor others, and finds all of its answer later. */
    @Test
    void aSlowReaderDoesNotDelayOthers() throws Exception {
        try (Fixture fixture = new Fixture()) {
            fixture.engine.reply("word ".repeat(4000));
            try (RawClient slow = fixture.raw()) {
                slow.post("/execute", Fixture.quoted("{'job_id':'slow','prompt':'x','max_tokens':4000}"))
                        .openStream()
                        .event();
                Fixture.await("the engine is done with it", () -> fixture.engine.live() == 0);
                assertThat(fixture.post("/v1/completions", "{'prompt':'x','max_tokens':4}")
                                .status())
                        .isEqualTo(200);
                String last = slow.event();
                while (!last.contains("\"type\":\"end\"")) {
                    last = slow.event();
                }
                assertThat(last).contains("\"tokens_out\":4000");
            }
        }
    }

    @Test
    void theLogHasEventsButNoPrompts() throws Exception {
        try (Fixture fixture = locked()) {
            String[] headers = {"Authorization", "Bearer " + KEY, "X-Correlation-ID", "corr-7"};
            fixture.post("/execute", "{'job_id':'job-7','prompt':'the launch code is 1234','max_tokens':50}", headers);
            fixture.post("/execute", "{'job_id':'key " + KEY + "','prompt':'x','max_tokens':5}", headers);
            fixture.post("/v1/completions", "{'prompt':'another launch code'}", headers);
            fixture.get("/metrics", "Authorization", "Bearer wrong-" + KEY);
            Fixture.await(
                    "all lines",
                    () -> fixture.log.stream()
                                    .filter(line -> line.contains("\"answered\""))
                                    .count()
                            >= 3);
            String all = String.join("\n", fixture.log);
            assertThat(all)
                    .doesNotContain("launch code")
                    .doesNotContain("Hello, world")
                    .doesNotContain(KEY)
                    .contains("[redacted]");
            JsonNode finished = fixture.log.stream()
                    .filter(line -> line.contains("\"finished\"") && line.contains("job-7"))
                    .map(Jackson.JSON::readTree)
                    .findFirst()
                    .orElseThrow();
            assertThat(finished.get("worker_id").stringValue()).isEqualTo("worker-1");
            assertThat(finished.get("correlation_id").stringValue()).isEqualTo("corr-7");
            assertThat(finished.get("tokens_in").intValue()).isPositive();
            assertThat(finished.get("tokens_out").intValue()).isPositive();
            assertThat(finished.has("decode_time_ms") && finished.has("duration_ms"))
                    .isTrue();
            for (String line : fixture.log) {
                JsonNode node = Jackson.JSON.readTree(line);
                for (String field : List.of("time", "level", "actor", "action", "target", "human")) {
                    assertThat(node.get(field).isString()).as(line).isTrue();
                }
            }
            assertThat(all).contains("prompt_hash").contains("\"error_kind\":\"invalid_api_key\"");
        }
    }
}
