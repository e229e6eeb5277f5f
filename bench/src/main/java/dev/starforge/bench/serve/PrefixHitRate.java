package dev.starforge.bench.serve;

import dev.starforge.bench.process.Programs;
import dev.starforge.serve.RawClient;
import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.pool.Pool;
import dev.starforge.serve.pool.PoolKeys;
import dev.starforge.serve.pool.config.ModelEntry;
import dev.starforge.serve.pool.config.PoolConfig;
import dev.starforge.serve.pool.config.RestartPolicy;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Measures the prefix cache hit rate of real workers, from their metrics. Requests that share the prefix of one of several files go
 * through the pool, which routes by prefix; then requests for other files go to random workers.
 */
final class PrefixHitRate {
    private static final int WORKERS = 3;
    private static final int FILES = 36;
    private static final int REQUESTS = 360;
    private static final int LINES = 12;
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    private final Random random = new Random(1);
    private final Pool pool;
    private final List<URI> workers = new ArrayList<>();

    private PrefixHitRate(Pool pool) {
        this.pool = pool;
    }

    /** Prints the hit rate with prefix routing and with random routing. Throws an error if prefix routing is not better. */
    static void measure(String program, Path modelFile) throws Exception {
        Path state = Files.createTempDirectory("prefix-hits");
        ModelEntry model = new ModelEntry("micro", modelFile, "cpu", Map.of(), false, Optional.empty());
        PoolConfig config = new PoolConfig(
                "hits",
                state,
                "127.0.0.1:0",
                Optional.empty(),
                Optional.empty(),
                false,
                RestartPolicy.DEFAULT,
                List.of(model),
                List.of());
        try {
            Pool pool = Pool.start(config, List.of(program), PoolKeys.NONE, EventLog.silent());
            try {
                new PrefixHitRate(pool).run();
            } finally {
                pool.drain();
            }
        } finally {
            Programs.delete(state);
        }
    }

    private void run() throws Exception {
        for (int i = 0; i < WORKERS; i++) {
            ask(pool.uri(), "/v2/workers/start", Jackson.object().put("model_ref", "micro"), 202);
        }
        long begin = System.nanoTime();
        while (workers.size() < WORKERS) {
            Thread.sleep(200);
            workers.clear();
            JsonNode state = Jackson.JSON.readTree(get(pool.uri(), "/v2/state"));
            if (System.nanoTime() - begin > PATIENCE.toNanos()) {
                throw new AssertionError("expected " + WORKERS + " workers within " + PATIENCE.toSeconds() + " s, got "
                        + state.toPrettyString());
            }
            state.path("workers")
                    .valueStream()
                    .filter(worker -> worker.path("status").asString().equals("READY"))
                    .forEach(worker -> workers.add(URI.create(worker.path("uri").asString())));
        }
        double routed = hitRate("routed", false);
        double random = hitRate("random", true);
        System.out.printf(
                "%d requests for %d files, %d workers: %.1f %% of prompt tokens cached with prefix routing,"
                        + " %.1f %% with random routing%n",
                REQUESTS, FILES, WORKERS, 100 * routed, 100 * random);
        if (routed < random + 0.1) {
            throw new AssertionError("expected a higher hit rate with prefix routing than with random routing");
        }
    }

    private double hitRate(String name, boolean randomRouting) throws IOException {
        long asked = sum("vllm:prefix_cache_queries_total");
        long found = sum("vllm:prefix_cache_hits_total");
        for (int i = 0; i < REQUESTS; i++) {
            URI server = randomRouting ? workers.get(random.nextInt(WORKERS)) : pool.uri();
            ObjectNode request = Jackson.object().put("model", "micro").put("max_tokens", 1);
            request.put("prompt", file(name, random.nextInt(FILES)) + "ask(" + i);
            ask(server, "/v1/completions", request, 200);
        }
        return (double) (sum("vllm:prefix_cache_hits_total") - found)
                / (sum("vllm:prefix_cache_queries_total") - asked);
    }

    private static String file(String name, int index) {
        Random words = new Random(31L * index + name.hashCode());
        StringBuilder text = new StringBuilder();
        for (int line = 0; line < LINES; line++) {
            text.append("def step_").append(words.nextInt(1000)).append("(value): return value + ");
            text.append(words.nextInt(100)).append('\n');
        }
        return text.toString();
    }

    private long sum(String metric) throws IOException {
        long sum = 0;
        for (URI worker : workers) {
            sum += get(worker, "/metrics")
                    .lines()
                    .filter(line -> line.startsWith(metric + "{"))
                    .mapToLong(line -> (long) Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1)))
                    .sum();
        }
        return sum;
    }

    private static String get(URI server, String path) throws IOException {
        try (RawClient client = new RawClient(server.getPort())) {
            return client.get(path).reply().body();
        }
    }

    private static void ask(URI server, String path, ObjectNode body, int status) throws IOException {
        try (RawClient client = new RawClient(server.getPort())) {
            client.socket().setSoTimeout(60_000);
            RawClient.Reply reply = client.post(path, body.toString()).reply();
            if (reply.status() != status) {
                throw new AssertionError("expected " + status + " from " + path + ", got " + reply);
            }
        }
    }
}
