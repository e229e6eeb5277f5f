package dev.starforge.serve.pool;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.serve.RawClient;
import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.pool.process.CommandRunner;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** A pool and its workers, which are real processes, and what is done to them. */
final class PoolTest {
    private static final Duration NEVER = Duration.ZERO;
    private static final String STREAM = "{'model':'slow','prompt':'x','max_tokens':100,'stream':true}";

    /** What needs no key, and how it is answered. */
    private static final Map<String, Integer> OPEN = Map.of("GET /health", 200, "GET /", 200, "GET /page/x", 404);

    @TempDir
    private Path folder;

    /** What a client of a stream got: its tokens, and how it ended. */
    private record Streamed(int tokens, String end) {}

    /** @param victim hears when the worker of this id has given the first token */
    private static Streamed read(RawClient client, String id, CountDownLatch victim) throws IOException {
        boolean mine = false;
        for (String line = client.line(); !line.isEmpty(); line = client.line()) {
            mine |= line.equals("X-Worker-ID: " + id);
        }
        int tokens = 0;
        for (String event = client.event(); ; event = client.event()) {
            JsonNode node = event.equals("[DONE]") ? Jackson.object() : Jackson.JSON.readTree(event);
            if (event.equals("[DONE]") || node.has("error")) {
                return new Streamed(
                        tokens, node.has("error") ? node.path("error_code").asString() : event);
            }
            if (mine) {
                victim.countDown();
            }
            tokens += node.path("choices").path(0).path("text").asString().isEmpty() ? 0 : 1;
        }
    }

    @Test
    void aKilledWorkerCausesAtMostARetriableError() throws Exception {
        try (PoolFixture pool = new PoolFixture(folder).model("slow", "tokens=80 step_ms=20", NEVER)) {
            pool.timing = PoolFixture.WITHOUT_HEALTH_CHECKS;
            pool.start();
            String first = pool.worker("slow", false);
            pool.worker("slow", true);
            PoolFixture.await("both are ready", () -> pool.status(first).equals("READY"));
            try (ExecutorService clients = Executors.newVirtualThreadPerTaskExecutor()) {
                List<Future<Streamed>> streams = new ArrayList<>();
                List<Future<RawClient.Reply>> whole = new ArrayList<>();
                CountDownLatch begun = new CountDownLatch(1);
                for (int i = 0; i < 12; i++) {
                    streams.add(clients.submit(() -> {
                        try (RawClient client = pool.client()) {
                            return read(client.post("/v1/completions", STREAM.replace('\'', '"')), first, begun);
                        }
                    }));
                    whole.add(clients.submit(() -> pool.complete("slow")));
                }
                begun.await();
                long begin = System.nanoTime();
                pool.signal(first, "KILL");
                PoolFixture.await("it is accounted", () -> {
                    try {
                        return pool.worker(first).path("last_exit").asString().contains("out of memory");
                    } catch (IOException failure) {
                        throw new AssertionError(failure);
                    }
                });
                assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(Duration.ofSeconds(5));
                int lost = 0;
                for (Future<Streamed> stream : streams) {
                    Streamed streamed = stream.get();
                    assertThat(streamed.end()).isIn("[DONE]", "WORKER_LOST");
                    assertThat(streamed.tokens() == 80).isEqualTo(streamed.end().equals("[DONE]"));
                    lost += streamed.end().equals("[DONE]") ? 0 : 1;
                }
                assertThat(lost).as("those of the worker that was killed").isPositive();
                for (Future<RawClient.Reply> reply : whole) {
                    assertThat(reply.get().status())
                            .as("the client had received nothing")
                            .isEqualTo(200);
                }
            }
            PoolFixture.await("it is back", () -> pool.status(first).equals("READY"));
            assertThat(pool.worker(first).path("restarts").intValue()).isEqualTo(1);
        }
    }

    @Test
    void aStoppedProcessIsReplacedAndOneThatDrainsIsNot() throws Exception {
        try (PoolFixture pool = new PoolFixture(folder)
                .model("slow", "tokens=80 step_ms=20", NEVER)
                .start()) {
            String first = pool.worker("slow", false);
            String second = pool.worker("slow", true);
            PoolFixture.await("both are ready", () -> pool.status(first).equals("READY"));
            hang(pool, second);
            shutDownByItself(pool, second);
        }
    }

    /** A stopped process keeps its connections open: only a timeout detects it. */
    private static void hang(PoolFixture pool, String id) throws Exception {
        pool.signal(id, "STOP");
        try (ExecutorService clients = Executors.newVirtualThreadPerTaskExecutor()) {
            List<Future<RawClient.Reply>> replies = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                replies.add(clients.submit(() -> pool.complete("slow")));
            }
            for (Future<RawClient.Reply> reply : replies) {
                assertThat(reply.get().status()).isEqualTo(200);
            }
        }
        PoolFixture.await("it is found", () -> {
            try {
                return pool.worker(id).path("reason").asString().contains(" in a row ");
            } catch (IOException failure) {
                throw new AssertionError(failure);
            }
        });
        PoolFixture.await("it is back", () -> pool.status(id).equals("READY"));
    }

    /** Exit 0 is not restarted. */
    private static void shutDownByItself(PoolFixture pool, String id) throws Exception {
        URI uri = URI.create(pool.worker(id).path("uri").asString());
        try (RawClient straight = new RawClient(uri.getPort())) {
            assertThat(straight.post("/shutdown", "{}").reply().status())
                    .as("only the pool may")
                    .isEqualTo(401);
        }
        pool.signal(id, "TERM");
        PoolFixture.await("it has ended", () -> pool.status(id).equals("STOPPED"));
        assertThat(pool.worker(id).path("last_exit").asString()).isEqualTo("0: drained");
        assertThat(pool.complete("slow").status()).as("the other one serves on").isEqualTo(200);
    }

    @Test
    void aRestartedPoolAdoptsItsWorkers() throws Exception {
        PoolFixture pool = new PoolFixture(folder).model("slow", "tokens=60 step_ms=20", NEVER);
        try (pool) {
            pool.start();
            String id = pool.worker("slow", true);
            long pid = pool.pid(id);
            try (RawClient straight = new RawClient(
                            URI.create(pool.worker(id).path("uri").asString()).getPort());
                    RawClient through = pool.client()) {
                straight.post("/v1/completions", STREAM.replace('\'', '"'))
                        .openStream()
                        .event();
                through.post("/v1/completions", STREAM.replace('\'', '"'))
                        .openStream()
                        .event();
                pool.pool.close();
                pool.start(); // elsewhere: by now an outgoing connection may have been given the old port
                PoolFixture.await("it is known", () -> List.of("READY", "BUSY").contains(pool.status(id)));
                assertThat(pool.pid(id)).isEqualTo(pid);
                assertThat(pool.state()
                                .path("devices")
                                .path(0)
                                .path("allocated")
                                .longValue())
                        .isEqualTo(pool.worker(id).path("memory_reserved").longValue())
                        .isPositive();
                int events = 1;
                while (!straight.event().equals("[DONE]")) {
                    events++;
                }
                assertThat(events)
                        .as("tokens and the end of a stream that went straight on")
                        .isGreaterThan(59);
                assertThatThrownBy(() -> {
                            while (true) {
                                through.event();
                            }
                        })
                        .isInstanceOf(IOException.class);
            }
            assertThat(pool.complete("slow").status()).isEqualTo(200);
            assertThat(pool.worker(id).path("restarts").intValue()).isZero();
            leaving(pool, URI.create(pool.worker(id).path("uri").asString()));
        }
    }

    /** A client that leaves is passed on, and the worker gives the work up. */
    private static void leaving(PoolFixture pool, URI worker) throws Exception {
        String cancelled = "worker_requests_total{outcome=\"cancelled\"} ";
        int before = metric(worker, cancelled);
        try (RawClient client = pool.client()) {
            client.post("/v1/completions", STREAM.replace('\'', '"'))
                    .openStream()
                    .event();
        }
        PoolFixture.await("it is cancelled", () -> metric(worker, cancelled) > before);
        PoolFixture.await("nothing is under way", () -> pool.requests() == 0);
    }

    private static int metric(URI worker, String name) {
        try (RawClient client = new RawClient(worker.getPort())) {
            return client.get("/metrics")
                    .reply()
                    .body()
                    .lines()
                    .filter(line -> line.startsWith(name))
                    .mapToInt(line -> Integer.parseInt(line.substring(name.length())))
                    .findFirst()
                    .orElseThrow();
        } catch (IOException failure) {
            throw new AssertionError(failure);
        }
    }

    @Test
    void workersStartOnDemandAndStopWhenIdle() throws Exception {
        try (PoolFixture pool = new PoolFixture(folder)
                .model("idle", "tokens=3", Duration.ofMillis(300))
                .model("big-a", "tokens=3 callbacks=2", NEVER)
                .model("big-b", "tokens=3", NEVER)
                .model("huge", "tokens=3", NEVER)
                .model("broken", "", NEVER)
                .start()) {
            assertThat(pool.complete("idle").status()).isEqualTo(200);
            PoolFixture.await("scaled to zero", () -> status(pool, "idle").equals("STOPPED"));
            assertThat(pool.complete("big-a").status()).isEqualTo(200);
            assertThat(pool.complete("big-b").status())
                    .as("there is room for one of them; the idle one has made it")
                    .isEqualTo(200);
            assertThat(status(pool, "big-a")).isEqualTo("STOPPED");
            assertThat(pool.complete("idle").status()).as("and back").isEqualTo(200);
            refuses(pool, "huge", 503, "INSUFFICIENT_MEMORY", false);
            refuses(pool, "broken", 400, "MODEL_INCOMPATIBLE", false);
            refuses(pool, "nowhere", 404, "MODEL_NOT_FOUND", false);
            RawClient.Reply device = pool.post("/v2/workers/start", "{'model_ref':'idle','device':'cuda:0'}");
            assertThat(device.body()).contains("DEVICE_UNAVAILABLE", "available: [cpu]");
            assertThat(pool.post("/v2/workers/w-0/stop", "{}").body()).contains("WORKER_NOT_FOUND");
        }
    }

    private static String status(PoolFixture pool, String model) {
        try {
            String last = "";
            for (JsonNode worker : pool.state().path("workers")) {
                last = worker.path("model_ref").asString().equals(model)
                        ? worker.path("status").asString()
                        : last;
            }
            return last;
        } catch (IOException failure) {
            throw new AssertionError(failure);
        }
    }

    private static void refuses(PoolFixture pool, String model, int status, String code, boolean retriable)
            throws IOException {
        RawClient.Reply reply = pool.complete(model);
        JsonNode body = Jackson.JSON.readTree(reply.body());
        assertThat(reply.status()).isEqualTo(status);
        assertThat(body.path("error_code").asString()).isEqualTo(code);
        assertThat(body.path("retriable").booleanValue()).isEqualTo(retriable);
        assertThat(body.path("error").path("message").asString()).isNotEmpty();
    }

    @Test
    void reloadingDrainingAndStoppingFinishRunningRequests() throws Exception {
        try (PoolFixture pool = new PoolFixture(folder)
                .model("slow", "tokens=80 step_ms=20", NEVER)
                .start()) {
            String old = pool.worker("slow", true);
            assertThat(pool.worker(old).propertyNames())
                    .contains("id", "worker_type", "capabilities", "model_ref", "device", "memory_used")
                    .contains("uri", "status", "started_at", "restarts", "last_exit");
            assertThat(pool.state().path("devices").path(0).propertyNames())
                    .contains("id", "kind", "name", "total", "allocated", "free", "workers");
            String fresh;
            try (RawClient client = pool.client()) {
                client.post("/v1/completions", STREAM.replace('\'', '"'));
                assertThat(client.line()).contains(" 200 ");
                RawClient.Reply reply = pool.post("/v2/workers/" + old + "/reload", "{}");
                assertThat(reply.status()).as(reply.body()).isEqualTo(202);
                fresh = Jackson.JSON.readTree(reply.body()).path("replaced_by").asString();
                assertThat(read(client, old, new CountDownLatch(1))).isEqualTo(new Streamed(80, "[DONE]"));
            }
            pool.awaitStatus(old, "STOPPED");
            assertThat(pool.worker(old).path("last_exit").asString()).isEqualTo("0: drained");
            assertThat(pool.complete("slow").headers()).containsEntry("x-worker-id", fresh);
            long pid = pool.pid(fresh);
            assertThat(pool.post("/v2/workers/" + fresh + "/drain", "{}").status())
                    .isEqualTo(202);
            pool.awaitStatus(fresh, "DRAINING");
            assertThat(ProcessHandle.of(pid)).as("the process stays").isPresent();
            assertThat(pool.post("/v2/workers/" + fresh + "/stop", "{}").status())
                    .isEqualTo(202);
            pool.awaitStatus(fresh, "STOPPED");
            assertThat(ProcessHandle.of(pid)).isEmpty();
        }
    }

    @Test
    void memoryUsedByAnotherPoolIsNotFree() throws Exception {
        PoolFixture pool = new PoolFixture(folder).model("big", "tokens=3", NEVER);
        CommandRunner others = pool.commands;
        pool.commands = (command, timeout) -> {
            CommandRunner.CommandOutput printed = others.run(command, timeout);
            String free = printed.out().replaceFirst("\"free_bytes\":\\d+", "\"free_bytes\":1000000");
            return new CommandRunner.CommandOutput(printed.code(), free, printed.err());
        };
        try (pool) {
            pool.start();
            refuses(pool, "big", 503, "INSUFFICIENT_MEMORY", true);
            assertThat(pool.state().path("devices").path(0).path("free").longValue())
                    .isEqualTo(1_000_000);
        }
    }

    @Test
    void aStoppedEngineBehindAHealthyEndpointIsDetected() throws Exception {
        try (PoolFixture pool = new PoolFixture(folder)
                .model("dies", "tokens=3 engine_dies_ms=1", NEVER)
                .start()) {
            String id = pool.worker("dies", false);
            PoolFixture.await("it is found", () -> {
                try {
                    return pool.worker(id).path("reason").asString().contains("/health/deep");
                } catch (IOException failure) {
                    throw new AssertionError(failure);
                }
            });
        }
    }

    @Test
    void addressesAndFoldersInUseAreReported() throws Exception {
        PoolFixture pool = new PoolFixture(folder);
        try (ServerSocket taken = new ServerSocket(0)) {
            assertThatThrownBy(() -> pool.start("127.0.0.1:" + taken.getLocalPort()))
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("cannot listen on");
        }
        try (pool) {
            pool.start();
            assertThatThrownBy(() -> Pool.start(
                            pool.config("127.0.0.1:0"),
                            PoolFixture.parts(PoolFixture.QUICK),
                            PoolKeys.NONE,
                            EventLog.silent()))
                    .as("two pools on one folder")
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("is being written by another");
        }
        Path file = Files.createFile(folder.resolve("file"));
        assertThatThrownBy(() -> new PoolFixture(file).start())
                .as("a folder that cannot be written to")
                .isInstanceOf(IOException.class);
    }

    @Test
    void keysAreForClientsWorkersAndTheCallback() throws Exception {
        PoolFixture pool = new PoolFixture(folder).model("fast", "tokens=3", NEVER);
        pool.keys = Optional.of(Files.writeString(folder.resolve("keys"), "first-key\nsecond-key\n"));
        try (pool) {
            pool.start();
            assertThat(pool.complete("fast").status()).isEqualTo(401);
            for (String operation : pool.pool.operations()) {
                try (RawClient client = pool.client()) {
                    String path = operation.replace("{id}", "x");
                    client.send(path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
                    assertThat(client.reply().status()).as(path).isEqualTo(OPEN.getOrDefault(path, 401));
                }
            }
            String body = "{\"model\":\"fast\",\"prompt\":\"x\"}";
            try (RawClient client = pool.client()) {
                client.socket().setSoTimeout(60_000);
                client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer second-key\r\n"
                        + "Content-Length: " + body.length() + "\r\n\r\n" + body);
                RawClient.Reply reply = client.reply();
                assertThat(reply.status()).as(reply.body()).isEqualTo(200);
                assertThat(reply.headers()).containsKey("x-worker-id");
            }
        }
    }

    private static RawClient.Reply with(PoolFixture pool, String key, String operation, String body)
            throws IOException {
        try (RawClient client = pool.client()) {
            client.socket().setSoTimeout(60_000);
            client.send(operation + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\nContent-Length: "
                    + body.length() + "\r\n\r\n" + body.replace('\'', '"'));
            return client.reply();
        }
    }

    @Test
    void whereThereAreAdminKeysClientsChangeNothing() throws Exception {
        PoolFixture pool = new PoolFixture(folder).model("fast", "tokens=3", NEVER);
        pool.keys = Optional.of(Files.writeString(folder.resolve("keys"), "client-key\n"));
        pool.adminKeys = Optional.of(Files.writeString(folder.resolve("admins"), "admin-key\n"));
        try (pool) {
            pool.start();
            for (String change : List.of("start", "register", "w-0/stop", "w-0/drain", "w-0/reload")) {
                String operation = "POST /v2/workers/" + change;
                RawClient.Reply client = with(pool, "client-key", operation, "{}");
                assertThat(client.status()).as(operation).isEqualTo(403);
                assertThat(client.body()).contains("admin_key_required", "this path requires an admin key");
                assertThat(with(pool, "neither", operation, "{}").status()).isEqualTo(401);
                assertThat(with(pool, "admin-key", operation, "{}").status())
                        .as(operation)
                        .isIn(400, 404);
            }
            assertThat(with(pool, "admin-key", "POST /v2/workers/start", "{'model_ref':'fast'}")
                            .status())
                    .isEqualTo(202);
            String body = "{'model':'fast','prompt':'x'}";
            assertThat(with(pool, "client-key", "POST /v1/completions", body).status())
                    .as("the worker called back and knows the client's key")
                    .isEqualTo(200);
            assertThat(with(pool, "admin-key", "POST /v1/completions", body).status())
                    .isEqualTo(200);
            for (String key : List.of("client-key", "admin-key")) {
                assertThat(with(pool, key, "GET /v2/state", "").status()).isEqualTo(200);
            }
        }
    }

    @Test
    void aPoolServesWhileTheMachinesToolsAreSlow() throws Exception {
        PoolFixture pool = new PoolFixture(folder).model("fast", "tokens=3", NEVER);
        CountDownLatch asked = new CountDownLatch(1);
        CommandRunner others = pool.commands;
        pool.commands = (command, timeout) -> switch (command.getFirst()) {
            case "uname" -> {
                asked.await();
                yield new CommandRunner.CommandOutput(0, "Linux\n", "");
            }
            case "cat", "lspci" -> new CommandRunner.CommandOutput(0, "", "");
            case "nvidia-smi" -> new CommandRunner.CommandOutput(0, "0, NVIDIA H200, 143771, 143161\n", "");
            default -> others.run(command, timeout);
        };
        try (pool) {
            pool.start();
            assertThat(pool.complete("fast").status()).isEqualTo(200);
            assertThat(pool.state().has("deployment")).isFalse();
            asked.countDown();
            PoolFixture.await("the tools have answered", () -> pool.deployment().isObject());
            assertThat(pool.deployment().path("backend").asString())
                    .as("the GPU is there, but no worker computes on it")
                    .isEqualTo("cpu");
            assertThat(pool.deployment().path("rejected").path(0).asString()).startsWith("NVIDIA H200: ");
        }
    }

    @Test
    void aRejectedModelAndOneThatStartsTooSlowlyAreReported() throws Exception {
        PoolFixture pool =
                new PoolFixture(folder).model("refused", "exit=3", NEVER).model("late", "load_ms=60000", NEVER);
        pool.timing = PoolFixture.starting(Duration.ofMillis(1500));
        try (pool) {
            pool.start();
            refuses(pool, "refused", 503, "WORKER_START_FAILED", false);
            assertThat(pool.complete("refused").body())
                    .as("not even tried again")
                    .contains("3: model rejected", "cannot be started, since 20", "/reload");
            String late = pool.worker("late", false);
            JsonNode failed = pool.awaitStatus(late, "FAILED");
            assertThat(failed.path("reason").asString()).isEqualTo("not ready within 1 s");
            assertThat(failed.path("failed_since").asString()).startsWith("20");
            assertThat(failed.path("restart_in_s").doubleValue()).isBetween(0.0, 1.2);
            PoolFixture.await("and started again", () -> pool.status(late).equals("STARTING"));
        }
    }
}
