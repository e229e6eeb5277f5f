package dev.starforge.bench.serve;

import dev.starforge.serve.Fixture;
import dev.starforge.serve.RawClient;
import dev.starforge.text.json.Jackson;
import java.io.EOFException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import tools.jackson.databind.JsonNode;

/**
 * Soak test of {@code starforge serve} with a real model. Fifty clients send greedy requests, streams and embeddings, disconnect,
 * cancel and send invalid requests. Every answer must equal the answer of the idle server. At the end the server drains while
 * requests run, is killed, and starts again on the same port.
 */
final class ServerSoak {
    private static final int CLIENTS = 50;
    private static final int PROMPTS = 6;
    private static final int TOKENS = 12;
    private static final Duration SETTLES = Duration.ofSeconds(60);

    private final ServerProcess server;
    private final List<String> expected = new ArrayList<>();
    private final List<JsonNode> vectors = new ArrayList<>();
    private final Map<String, Integer> done = new ConcurrentSkipListMap<>();
    private final ConcurrentLinkedQueue<Long> health = new ConcurrentLinkedQueue<>();

    private ServerSoak(ServerProcess server) {
        this.server = server;
    }

    /** Runs the soak test. {@code command} serves a model; the port is added to it. */
    static void run(Duration time, long seed, List<String> command) throws Exception {
        int port;
        try (ServerProcess server = ServerProcess.start(command, 0)) {
            port = server.port();
            ServerSoak soak = new ServerSoak(server);
            soak.recordAnswers();
            soak.clients(time.dividedBy(6), seed); // warm-up
            soak.health.clear();
            ServerProcess.Resources before = server.resources(SETTLES);
            soak.clients(time, seed + 1);
            ServerProcess.Resources after = server.resources(SETTLES);
            System.out.printf(
                    "%d s, %d clients: %s%nbefore %s%nafter  %s%n%s%n",
                    time.toSeconds(), CLIENTS, new TreeMap<>(soak.done), before, after, soak.healthTimes());
            after.requireAtMost(before);
            soak.drain();
        }
        killed(command, port);
    }

    private static String prompt(int number) {
        return "class A" + number + " {" + " int a = 0;".repeat(1 + 3 * number);
    }

    private static String completion(int number, String more) {
        return Fixture.quoted(
                "{'prompt':'" + prompt(number) + "','max_tokens':" + TOKENS + ",'temperature':0" + more + "}");
    }

    private static String job(String id, int number, int tokens) {
        return Fixture.quoted("{'job_id':'" + id + "','prompt':'" + prompt(number) + "','max_tokens':" + tokens
                + ",'temperature':0}");
    }

    private static JsonNode json(RawClient.Reply reply) {
        require(reply.status() == 200, "200, but got " + reply.status() + " " + reply.body());
        return Jackson.JSON.readTree(reply.body());
    }

    private static String text(RawClient.Reply reply) {
        return json(reply).at("/choices/0/text").stringValue();
    }

    /** Records the answer to each prompt from the idle server. */
    private void recordAnswers() throws IOException {
        for (int i = 0; i < PROMPTS; i++) {
            try (RawClient client = server.client()) {
                expected.add(
                        text(client.post("/v1/completions", completion(i, "")).reply()));
            }
            try (RawClient client = server.client()) {
                vectors.add(json(client.post("/v1/embeddings", Fixture.quoted("{'input':'" + prompt(i) + "'}"))
                                .reply())
                        .at("/data/0/embedding"));
            }
        }
    }

    private void clients(Duration time, long seed) throws Exception {
        long deadline = System.nanoTime() + time.toNanos();
        try (ExecutorService clients = Executors.newFixedThreadPool(CLIENTS + 1)) {
            List<Future<?>> running = new ArrayList<>();
            running.add(clients.submit(() -> {
                while (System.nanoTime() < deadline) {
                    long begin = System.nanoTime();
                    try (RawClient client = server.client()) {
                        require(client.get("/health").reply().status() == 200, "200 of /health");
                    }
                    health.add(System.nanoTime() - begin);
                    Thread.sleep(20);
                }
                return "";
            }));
            for (int i = 0; i < CLIENTS; i++) {
                Random random = new Random(seed * CLIENTS + i);
                running.add(clients.submit(() -> {
                    for (int at = 0; System.nanoTime() < deadline; at++) {
                        done.merge(one(random, random.nextLong() + "-" + at), 1, Integer::sum);
                    }
                    return "";
                }));
            }
            for (Future<?> client : running) {
                client.get();
            }
        }
    }

    private String one(Random random, String id) throws IOException, InterruptedException {
        int number = random.nextInt(PROMPTS);
        try (RawClient client = server.client()) {
            return switch (random.nextInt(8)) {
                case 0 -> {
                    String said = text(client.post("/v1/completions", completion(number, ""))
                            .reply());
                    require(said.equals(expected.get(number)), expected.get(number) + ", but got " + said);
                    yield "whole";
                }
                case 1 -> {
                    client.post("/execute", job(id, number, TOKENS)).openStream();
                    String said = streamed(client);
                    require(said.equals(expected.get(number)), expected.get(number) + ", but streamed was " + said);
                    yield "streamed";
                }
                case 2 -> {
                    client.post("/execute", job(id, number, 200)).openStream();
                    for (int i = random.nextInt(8); i >= 0; i--) {
                        client.event();
                    }
                    yield "left";
                }
                case 3 -> {
                    client.post("/v1/completions", completion(number, ",'n':3"));
                    Thread.sleep(random.nextInt(50));
                    yield "left unread";
                }
                case 4 -> cancelled(client, id, number);
                case 5 -> {
                    JsonNode vector = json(client.post(
                                            "/v1/embeddings",
                                            Fixture.quoted("{'input':['x','" + prompt(number) + "']}"))
                                    .reply())
                            .at("/data/1/embedding");
                    require(vector.equals(vectors.get(number)), "the same vector");
                    yield "embedded";
                }
                case 6 -> {
                    client.post("/v1/embeddings", Fixture.quoted("{'input':['x','" + prompt(number) + "']}"));
                    Thread.sleep(random.nextInt(20));
                    yield "embedding left";
                }
                default -> refused(client);
            };
        } catch (EOFException early) {
            throw new AssertionError("a response ended early", early);
        }
    }

    private static String streamed(RawClient client) throws IOException {
        StringBuilder text = new StringBuilder();
        JsonNode event = Jackson.JSON.readTree(client.event());
        while (!event.path("type").stringValue().equals("end")) {
            require(!event.path("type").stringValue().equals("error"), "no error, but got " + event);
            text.append(event.path("t").asString(""));
            event = Jackson.JSON.readTree(client.event());
        }
        return text.toString();
    }

    private String cancelled(RawClient client, String id, int number) throws IOException {
        client.post("/execute", job(id, number, 200)).openStream().event();
        try (RawClient other = server.client()) {
            String body = Fixture.quoted("{'job_id':'" + id + "'}");
            require(other.post("/cancel", body).reply().status() == 202, "202");
        }
        String last = client.event();
        while (!last.contains("CANCELLED") && !last.contains("stop_reason")) {
            last = client.event();
        }
        return last.contains("CANCELLED") ? "cancelled" : "cancelled too late";
    }

    private static String refused(RawClient client) throws IOException {
        for (String bad : List.of("{\"prompt\":5}", "{", "{\"prompt\":\"x\",\"max_tokens\":99999999}")) {
            int status = client.post("/v1/completions", bad).reply().status();
            require(status == 400, "400 for " + bad + ", but got " + status);
        }
        require(client.get("/nowhere").reply().status() == 404, "404");
        return "refused";
    }

    /** While the server drains, running requests finish, new ones are refused, and the exit code is 0. */
    private void drain() throws Exception {
        List<RawClient> running = new ArrayList<>();
        for (int i = 0; i < CLIENTS; i++) {
            running.add(server.client());
            running.getLast()
                    .post("/execute", job("last-" + i, i % PROMPTS, 100))
                    .openStream();
        }
        server.terminate();
        boolean accepted;
        do {
            try (RawClient late = server.client()) {
                accepted =
                        late.post("/v1/completions", completion(0, "")).reply().status() == 200;
            } catch (IOException e) {
                accepted = false;
            }
        } while (accepted); // until the signal arrives
        for (RawClient each : running) {
            require(!streamed(each).isEmpty(), "a complete stream");
            each.close();
        }
        require(server.exit() == 0, "0 as the exit code of a drained server, but got " + server.exit());
        System.out.println("drained: " + CLIENTS + " running requests finished, a new one was refused, exit code 0");
    }

    /** A server that is killed while requests run starts again on the same port at once, and gives the same answer. */
    private static void killed(List<String> command, int port) throws Exception {
        String said;
        try (ServerProcess server = ServerProcess.start(command, port);
                RawClient client = server.client();
                RawClient running = server.client()) {
            said = text(client.post("/v1/completions", completion(1, "")).reply());
            running.post("/execute", job("killed", 1, 200)).openStream().event();
            server.kill();
            require(server.exit() != 0, "a killed process");
        }
        try (ServerProcess server = ServerProcess.start(command, port);
                RawClient client = server.client()) {
            String again =
                    text(client.post("/v1/completions", completion(1, "")).reply());
            require(again.equals(said), "the same completion after the restart");
            server.terminate();
            require(server.exit() == 0, "0 as the exit code");
        }
        System.out.println("killed: started again on port " + port + " with the same completion");
    }

    private String healthTimes() {
        List<Long> sorted = health.stream().sorted().toList();
        return String.format(
                "/health meanwhile, each on a new connection: %d requests, p50 %.1f ms, p99 %.1f ms",
                sorted.size(), sorted.get(sorted.size() / 2) / 1e6, sorted.get(sorted.size() * 99 / 100) / 1e6);
    }

    static void require(boolean right, String what) {
        if (!right) {
            throw new AssertionError("expected " + what);
        }
    }
}
