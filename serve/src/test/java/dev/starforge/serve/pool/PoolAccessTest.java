package dev.starforge.serve.pool;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.serve.RawClient;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Which key may call which route of a pool, and of a worker that it started: all of them. */
final class PoolAccessTest {
    private static final String CLIENT = "client-key";
    private static final String ADMIN = "admin-key";
    private static final List<String> KEYS = List.of("", "Bearer", "wrong-key", CLIENT, ADMIN);

    private enum Outcome {
        /** 401: no key, or none that this route accepts. */
        UNKNOWN,
        /** 403: the key is known, but is not an admin's. */
        FORBIDDEN,
        /** Any other status: the request has reached the route. */
        ADMITTED
    }

    private static final Outcome NO = Outcome.UNKNOWN;
    private static final Outcome NOT_ADMIN = Outcome.FORBIDDEN;
    private static final Outcome YES = Outcome.ADMITTED;

    /** What a route asks for; the order of the outcomes is that of {@link #KEYS}. */
    private enum Rule {
        OPEN,
        CLIENTS,
        ADMINS,
        WORKERS
    }

    private static final Map<String, Rule> RULES = new LinkedHashMap<>();

    static {
        for (String route : List.of("GET /", "GET /page/{id}", "GET /health")) {
            RULES.put(route, Rule.OPEN);
        }
        for (String route : List.of(
                "GET /ready",
                "GET /metrics",
                "GET /v1/models",
                "GET /v2/state",
                "GET /v2/events",
                "POST /v1/completions",
                "POST /v1/chat/completions",
                "POST /v1/embeddings",
                "POST /infill",
                "POST /tokenize",
                "POST /detokenize")) {
            RULES.put(route, Rule.CLIENTS);
        }
        for (String route : List.of("POST /v2/workers/start", "POST /v2/workers/register", "POST /v2/workers/{id}")) {
            RULES.put(route, Rule.ADMINS);
        }
        RULES.put("POST /v2/internal/workers/ready", Rule.WORKERS);
    }

    /** A config, and what it does with each key at each kind of route. */
    private record Setup(
            String name, boolean keys, boolean admins, boolean localAdmin, Map<Rule, List<Outcome>> expected) {}

    private static final List<Outcome> ALL = List.of(YES, YES, YES, YES, YES);
    private static final List<Outcome> NONE = List.of(NO, NO, NO, NO, NO);
    private static final List<Setup> SETUPS = List.of(
            new Setup(
                    "no keys",
                    false,
                    false,
                    false,
                    Map.of(Rule.OPEN, ALL, Rule.CLIENTS, ALL, Rule.ADMINS, ALL, Rule.WORKERS, NONE)),
            new Setup(
                    "admin keys",
                    false,
                    true,
                    false,
                    Map.of(
                            Rule.OPEN,
                            ALL,
                            Rule.CLIENTS,
                            ALL,
                            Rule.ADMINS,
                            List.of(NO, NO, NO, NO, YES),
                            Rule.WORKERS,
                            NONE)),
            new Setup(
                    "client keys",
                    true,
                    false,
                    false,
                    Map.of(
                            Rule.OPEN,
                            ALL,
                            Rule.CLIENTS,
                            List.of(NO, NO, NO, YES, NO),
                            Rule.ADMINS,
                            List.of(NO, NO, NO, NOT_ADMIN, NO),
                            Rule.WORKERS,
                            NONE)),
            new Setup(
                    "client keys, local_admin",
                    true,
                    false,
                    true,
                    Map.of(
                            Rule.OPEN,
                            ALL,
                            Rule.CLIENTS,
                            List.of(NO, NO, NO, YES, NO),
                            Rule.ADMINS,
                            List.of(NO, NO, NO, YES, NO),
                            Rule.WORKERS,
                            NONE)),
            new Setup(
                    "client and admin keys",
                    true,
                    true,
                    false,
                    Map.of(
                            Rule.OPEN,
                            ALL,
                            Rule.CLIENTS,
                            List.of(NO, NO, NO, YES, YES),
                            Rule.ADMINS,
                            List.of(NO, NO, NO, NOT_ADMIN, YES),
                            Rule.WORKERS,
                            NONE)));

    @TempDir
    private Path folder;

    private PoolFixture fixture(boolean keys, boolean admins) throws IOException {
        PoolFixture pool = new PoolFixture(folder);
        if (keys) {
            pool.keys = Optional.of(Files.writeString(folder.resolve("keys"), CLIENT + "\n"));
        }
        if (admins) {
            pool.adminKeys = Optional.of(Files.writeString(folder.resolve("admins"), ADMIN + "\n"));
        }
        return pool;
    }

    private static RawClient.Reply send(int port, String key, String route, String body) throws IOException {
        try (RawClient client = new RawClient(port)) {
            client.socket().setSoTimeout(60_000);
            String authorization = switch (key) {
                case "" -> "";
                case "Bearer" -> "Authorization: Bearer\r\n";
                default -> "Authorization: Bearer " + key + "\r\n";
            };
            client.send(route + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + authorization + "Content-Length: " + body.length()
                    + "\r\n\r\n" + body.replace('\'', '"'));
            if (route.equals("GET /v2/events")) { // which never ends
                return new RawClient.Reply(Integer.parseInt(client.line().split(" ")[1]), Map.of(), "");
            }
            return client.reply();
        }
    }

    @Test
    void everyRouteWithEveryKey() throws Exception {
        for (Setup setup : SETUPS) {
            PoolFixture pool = fixture(setup.keys, setup.admins);
            pool.localAdmin = setup.localAdmin;
            pool.start();
            try (Pool _ = pool.pool) {
                assertThat(pool.pool.operations()).containsExactlyInAnyOrderElementsOf(RULES.keySet());
                List<String> wrong = new ArrayList<>();
                RULES.forEach((route, rule) -> {
                    for (int i = 0; i < KEYS.size(); i++) {
                        Outcome expected = setup.expected.get(rule).get(i);
                        Outcome actual = outcome(pool, route, KEYS.get(i));
                        if (actual != expected) {
                            wrong.add(route + " with key '" + KEYS.get(i) + "': expected " + expected + ", got "
                                    + actual);
                        }
                    }
                });
                assertThat(wrong).as(setup.name).isEmpty();
            }
        }
    }

    private static Outcome outcome(PoolFixture pool, String route, String key) {
        try {
            String body = route.startsWith("POST") ? "not JSON" : "";
            RawClient.Reply reply = send(pool.port(), key, route.replace("{id}", "x"), body);
            // without admin keys, some of what an admin may do is refused beyond the route
            boolean beyond = reply.body().contains("admin_key_file");
            return switch (reply.status()) {
                case 401 -> Outcome.UNKNOWN;
                case 403 -> beyond ? Outcome.ADMITTED : Outcome.FORBIDDEN;
                default -> Outcome.ADMITTED;
            };
        } catch (IOException failure) {
            throw new AssertionError(failure);
        }
    }

    @Test
    void withoutAdminKeysLocalClientsUseTheModelsOfTheConfigAlone() throws Exception {
        try (PoolFixture pool =
                fixture(false, false).model("fast", "tokens=3", Duration.ZERO).start()) {
            String id = pool.worker("fast", true);
            for (String refused : List.of(
                    "register {'uri':'http://127.0.0.1:1'}",
                    "start {'model_ref':'/etc/passwd'}",
                    "start {'model_ref':'fast','adapters':{'a':'/tmp'}}")) {
                String[] words = refused.split(" ");
                RawClient.Reply reply = pool.post("/v2/workers/" + words[0], words[1]);
                assertThat(reply.status()).as(refused).isEqualTo(403);
                assertThat(reply.body()).contains("admin_key_required", "admin_key_file", "local_admin");
            }
            assertThat(pool.post("/v2/workers/" + id + "/stop", "").status()).isEqualTo(202);
        }
    }

    @Test
    void aRegistrationNamesNoFilesAndAPortThatExists() throws Exception {
        PoolFixture pool = fixture(true, true);
        Path secret = Files.writeString(folder.resolve("secret"), "a secret\n");
        pool.start();
        try (Pool _ = pool.pool) {
            String keyed = "{'uri':'http://127.0.0.1:1','api_key_file':'" + secret + "'}";
            assertThat(send(pool.port(), ADMIN, "POST /v2/workers/register", keyed)
                            .body())
                    .contains("api_key_file", "no such field");
            for (String uri : List.of(
                    "http://127.0.0.1:99999",
                    "http://127.0.0.1:0",
                    "http://127.0.0.1:-1",
                    "http://user@127.0.0.1:80",
                    "http://127.0.0.1:80/path",
                    "http://127.0.0.1:80?query",
                    "https://127.0.0.1:80",
                    "127.0.0.1:80",
                    "http://:80")) {
                RawClient.Reply reply = send(pool.port(), ADMIN, "POST /v2/workers/register", "{'uri':'" + uri + "'}");
                assertThat(reply.status()).as(uri).isEqualTo(400);
            }
        }
    }

    @Test
    void localAdminIsForLoopbackAddresses() throws Exception {
        PoolFixture pool = fixture(true, false);
        pool.localAdmin = true;
        assertThatThrownBy(() -> pool.start("0.0.0.0:0"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("pool.local_admin: expected a loopback address");
    }

    /** A worker accepts the clients' keys too, for those who call it directly; but it serves the pool, which alone ends it. */
    @Test
    void aWorkerOfThePoolIsShutDownByThePoolAlone() throws Exception {
        PoolFixture pool = fixture(true, true).model("fast", "tokens=3", Duration.ZERO);
        pool.start();
        RawClient.Reply reply = send(pool.port(), CLIENT, "POST /v1/completions", "{'model':'fast','prompt':'x'}");
        assertThat(reply.status()).as(reply.body()).isEqualTo(200);
        String state = send(pool.port(), CLIENT, "GET /v2/state", "").body();
        int worker = URI.create(state.replaceFirst("(?s).*\"uri\":\"(http://[0-9.:]+)\".*", "$1"))
                .getPort();
        assertThat(send(worker, CLIENT, "POST /shutdown", "").status()).isEqualTo(403);
        assertThat(send(worker, ADMIN, "POST /shutdown", "").status())
                .as("workers do not know the pool's admins")
                .isEqualTo(401);
        assertThat(send(worker, CLIENT, "POST /v1/completions", "{'prompt':'x'}")
                        .status())
                .isEqualTo(200);
        pool.pool.drain();
    }

    /** A local client cannot take a worker's place: neither its key nor what it can see of the start is enough. */
    @Test
    void readyNeedsTheSecretOfTheStartAlone() throws Exception {
        PoolFixture pool = fixture(true, true).model("slow", "load_ms=1500", Duration.ZERO);
        pool.start();
        RawClient.Reply started = send(pool.port(), ADMIN, "POST /v2/workers/start", "{'model_ref':'slow'}");
        String id = started.body().replaceFirst("(?s).*\"worker_id\":\"([^\"]+)\".*", "$1");
        String ready = "{'worker_id':'" + id + "','uri':'http://127.0.0.1:9'}";
        for (String key : KEYS) {
            assertThat(send(pool.port(), key, "POST /v2/internal/workers/ready", ready)
                            .status())
                    .as(key)
                    .isEqualTo(401);
        }
        Path entry = folder.resolve("state").resolve("workers").resolve(id + ".json");
        String secret = Files.readString(entry).replaceFirst("(?s).*\"start\" : \"([0-9a-f]{64})\".*", "$1");
        Path commandLine = Path.of("/proc", Long.toString(pool.pid(id)), "cmdline");
        if (Files.exists(commandLine)) {
            assertThat(Files.readString(commandLine)).contains(id).doesNotContain(secret);
        }
        assertThat(send(pool.port(), CLIENT, "POST /v1/completions", "{'model':'slow','prompt':'x'}")
                        .status())
                .isEqualTo(200);
        pool.pool.drain();
    }
}
