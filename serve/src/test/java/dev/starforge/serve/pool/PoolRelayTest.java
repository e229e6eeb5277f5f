package dev.starforge.serve.pool;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.RawClient;
import dev.starforge.serve.http.HttpLimits;
import dev.starforge.serve.pool.config.RemoteEntry;
import dev.starforge.serve.pool.proxy.RawWorker;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** What passes between clients and workers, and what does not. */
final class PoolRelayTest {
    private static final String BODY = "{\"model\":\"raw\",\"prompt\":\"x\"}";

    @TempDir
    private Path folder;

    private PoolFixture registered(RawWorker worker, Optional<Path> key) {
        PoolFixture pool = new PoolFixture(folder);
        pool.remotes.add(new RemoteEntry(worker.uri(), key));
        return pool;
    }

    private static String id(RawWorker worker) {
        return "r-127.0.0.1-" + worker.uri().getPort();
    }

    private static RawClient.Reply ask(PoolFixture pool, String key) throws IOException {
        try (RawClient client = pool.client()) {
            client.socket().setSoTimeout(60_000);
            client.send("POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + key
                    + "\r\nContent-Length: " + BODY.length() + "\r\n\r\n" + BODY);
            return client.reply();
        }
    }

    private static void awaitReady(PoolFixture pool, RawWorker worker, String key) throws Exception {
        PoolFixture.await("it is ready", () -> {
            try (RawClient client = pool.client()) {
                client.send("GET /v2/state HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + key + "\r\n\r\n");
                JsonNode known = Jackson.JSON.readTree(client.reply().body()).path("workers");
                return known.path(0).path("status").asString().equals("READY")
                        && known.path(0).path("id").asString().equals(id(worker));
            } catch (IOException failure) {
                throw new AssertionError(failure);
            }
        });
    }

    @Test
    void clientsKeysStayWithThePool() throws Exception {
        Path keys = Files.writeString(folder.resolve("keys"), "alice-key\nbob-key\n");
        Path admins = Files.writeString(folder.resolve("admins"), "admin-key\n");
        Path own = Files.writeString(folder.resolve("own"), "own-key\n");
        for (Optional<Path> key : List.of(Optional.of(own), Optional.<Path>empty())) {
            try (RawWorker worker = RawWorker.healthy(RawWorker.ok("application/json", "{}"));
                    Pool pool = start(registered(worker, key), keys, admins)) {
                assertThat(pool.connections()).isNotNegative();
                awaitReady(fixture, worker, "alice-key");
                for (String client : List.of("alice-key", "bob-key", "alice-key", "admin-key")) {
                    assertThat(ask(fixture, client).status()).isEqualTo(200);
                }
                assertThat(worker.requests)
                        .allSatisfy(request -> assertThat(request).doesNotContain("alice-key", "bob-key", "admin-key"));
                List<String> relayed = worker.requests.stream()
                        .filter(request -> request.startsWith("POST"))
                        .toList();
                if (key.isEmpty()) {
                    assertThat(relayed).noneMatch(request -> request.contains("Authorization"));
                    continue;
                }
                List<String> tenants = relayed.stream()
                        .map(request -> request.replaceFirst("(?s).*X-Starforge-Tenant: ([0-9a-f]{64})\r\n.*", "$1"))
                        .toList();
                assertThat(relayed).allMatch(request -> request.contains("Authorization: Bearer own-key\r\n"));
                assertThat(tenants).hasSize(4).doesNotContain("");
                assertThat(tenants.get(0)).isEqualTo(tenants.get(2)).hasSize(64);
                assertThat(List.of(tenants.get(0), tenants.get(1), tenants.get(3)))
                        .as("tenants are kept apart")
                        .doesNotHaveDuplicates();
            }
        }
    }

    private PoolFixture fixture;

    private Pool start(PoolFixture pool, Path keys, Path admins) throws Exception {
        fixture = pool;
        pool.keys = Optional.of(keys);
        pool.adminKeys = Optional.of(admins);
        return pool.start().pool;
    }

    @Test
    void aWorkerCannotWriteHeadersOrEventsOfThePool() throws Exception {
        List<String> answers = List.of(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\rX-Injected: yes\r\nContent-Length: 2\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                        + "1f\r\ndata: {}\r\rdata: {\"forged\":true}\n\n\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n");
        for (String answer : answers) {
            try (RawWorker worker = RawWorker.healthy(answer);
                    PoolFixture pool = registered(worker, Optional.empty()).start()) {
                awaitReady(pool, worker, "none");
                RawClient.Reply reply = ask(pool, "none");
                assertThat(reply.headers()).doesNotContainKey("x-injected");
                assertThat(reply.body()).contains("WORKER_LOST").doesNotContain("forged", "ok\"");
                assertThat(reply.body()).doesNotContain("\r");
            }
        }
    }

    /** Responses that take long, to requests whose bodies are together larger than the memory for bodies. */
    @Test
    void aBodyIsNotKeptDuringTheResponse() throws Exception {
        String begun = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                + "9\r\ndata: 1\n\n\r\n";
        String body = BODY + " ".repeat((4 << 20) - BODY.length());
        long count = HttpLimits.DEFAULT.buffers() / body.length() + 1;
        List<RawClient> clients = new ArrayList<>();
        try (RawWorker worker = RawWorker.healthy(begun);
                PoolFixture pool = registered(worker, Optional.empty()).start()) {
            worker.keepsConnections = true;
            awaitReady(pool, worker, "none");
            for (int i = 0; i < count; i++) {
                RawClient client = pool.client().post("/v1/completions", body);
                clients.add(client);
                assertThat(client.line()).isEqualTo("HTTP/1.1 200 OK");
                assertThat(client.event()).isEqualTo("1");
                worker.requests.clear();
            }
            for (RawClient client : clients) {
                client.close();
            }
        }
    }

    @Test
    void anErrorIsAnErrorWhateverItsType() throws Exception {
        String error = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
                + "Set-Cookie: a=b\r\nUpgrade: x\r\n\r\n2\r\nno\r\n0\r\n\r\n";
        try (RawWorker worker = RawWorker.healthy(error);
                PoolFixture pool = registered(worker, Optional.empty()).start()) {
            awaitReady(pool, worker, "none");
            RawClient.Reply reply = ask(pool, "none");
            assertThat(reply.status()).isEqualTo(400);
            assertThat(reply.body()).isEqualTo("no");
            assertThat(reply.headers()).doesNotContainKeys("set-cookie", "upgrade");
        }
    }

    /** It reports being healthy, generates the canary's token, and closes the connection of every client. */
    @Test
    void clientsOfABrokenWorkerHearOfItSoon() throws Exception {
        try (RawWorker worker = RawWorker.healthy("");
                PoolFixture pool = registered(worker, Optional.empty()).start()) {
            awaitReady(pool, worker, "none");
            for (int i = 0; i < 4; i++) {
                long begin = System.nanoTime();
                RawClient.Reply reply = ask(pool, "none");
                assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(Duration.ofSeconds(10));
                assertThat(reply.status()).isIn(503, 404);
                assertThat(reply.body()).containsAnyOf("WORKER_LOST", "MODEL_NOT_FOUND");
            }
            PoolFixture.await("it was taken out of rotation", () -> {
                try {
                    return pool.worker(id(worker)).path("reason").asString().contains("3 requests in a row");
                } catch (IOException failure) {
                    throw new AssertionError(failure);
                }
            });
        }
    }

    /** The start with the pool and early requests name the same model, and the preflight takes long. */
    @Test
    void aModelIsStartedOnceHoweverManyWantIt() throws Exception {
        PoolFixture pool = new PoolFixture(folder);
        pool.autostart = true;
        pool.model("fast", "tokens=3", Duration.ZERO);
        CountDownLatch planned = new CountDownLatch(1);
        var usual = pool.commands;
        pool.commands = (command, timeout) -> {
            if (command.contains("inspect")) {
                planned.await();
            }
            return usual.run(command, timeout);
        };
        pool.start();
        try (pool;
                ExecutorService clients = Executors.newVirtualThreadPerTaskExecutor()) {
            List<Future<RawClient.Reply>> replies = List.of(
                    clients.submit(() -> pool.complete("fast")),
                    clients.submit(() -> pool.complete("fast")),
                    clients.submit(() -> pool.complete("fast")));
            PoolFixture.await("all have arrived", () -> pool.requests() == 3);
            planned.countDown();
            for (Future<RawClient.Reply> reply : replies) {
                assertThat(reply.get().status()).isEqualTo(200);
            }
            assertThat(pool.state().path("workers")).hasSize(1);
        }
    }
}
