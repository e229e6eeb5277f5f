package dev.starforge.serve.pool;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.RawClient;
import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.WorkerState;
import dev.starforge.text.json.Jackson;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** The state that a pool reports matches its page; and a registered worker. */
final class PoolPagesTest {
    @TempDir
    private Path folder;

    private static List<String> all(String page, String pattern) {
        return Pattern.compile(pattern)
                .matcher(page)
                .results()
                .map(match -> match.group(1))
                .toList();
    }

    @Test
    void thePageMatchesThePool() throws Exception {
        String page = Files.readString(Path.of("..", "docs", "pool.md"));
        try (PoolFixture first = new PoolFixture(folder.resolve("first"));
                PoolFixture second = new PoolFixture(folder.resolve("second"))) {
            Files.createDirectories(folder.resolve("first"));
            Files.createDirectories(folder.resolve("second"));
            first.model("fast", "tokens=3", Duration.ZERO).start();
            second.localAdmin = true;
            second.start();
            assertThat(all(page, "(?m)^\\| `((?:GET|POST) /[^`]*)` \\|"))
                    .containsExactlyInAnyOrderElementsOf(first.pool.operations());
            for (PoolError code : PoolError.values()) {
                assertThat(page).contains("| `" + code + "` | " + code.status() + " |");
            }
            for (WorkerState state : WorkerState.values()) {
                assertThat(page).contains("`" + state + "`");
            }
            try (RawClient events = first.client()) {
                events.get("/v2/events").openStream();
                String id = first.worker("fast", true);
                JsonNode starting = Jackson.JSON.readTree(events.event());
                assertThat(starting.path("type").asString()).isEqualTo("starting");
                assertThat(starting.path("worker_id").asString()).isEqualTo(id);
                assertThat(Jackson.JSON.readTree(events.event()).path("status").asString())
                        .isEqualTo("READY");
                register(first, second, id);
            }
            try (RawClient client = first.client()) {
                client.send("HEAD /v2/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
                assertThat(client.line())
                        .as("a stream has no head without a body")
                        .contains(" 405 ");
            }
            try (RawClient client = first.client()) {
                String text = client.get("/metrics").reply().body();
                List<String> families = text.lines()
                        .filter(line -> line.startsWith("# TYPE"))
                        .map(line -> line.split(" ")[2])
                        .toList();
                assertThat(all(page.substring(page.indexOf("## Metrics")), "`(pool_[a-z_]+)"))
                        .containsExactlyInAnyOrderElementsOf(families);
                assertThat(text).contains("pool_worker_starts_total{outcome=\"ready\"} 1\n");
            }
        }
    }

    /** Another pool uses the worker, and cannot end it. */
    private static void register(PoolFixture owner, PoolFixture other, String id) throws Exception {
        URI uri = URI.create(owner.worker(id).path("uri").asString());
        RawClient.Reply reply = other.post("/v2/workers/register", "{'uri':'" + uri + "'}");
        assertThat(reply.status()).as(reply.body()).isEqualTo(201);
        String known = Jackson.JSON.readTree(reply.body()).path("worker_id").asString();
        PoolFixture.await("it is ready", () -> other.status(known).equals("READY"));
        assertThat(other.complete("fast").headers()).containsEntry("x-worker-id", known);
        assertThat(other.post("/v2/workers/" + known + "/stop", "{}").status()).isEqualTo(404);
        assertThat(other.post("/v2/workers/register", "{'uri':'ftp://x'}").status())
                .isEqualTo(400);
        assertThat(other.post("/v2/workers/start", "{'model':'x'}").body()).contains("model_ref", "no such field");
    }
}
