package dev.starforge.bench.serve;

import dev.starforge.serve.RawClient;
import dev.starforge.text.json.Jackson;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;

/**
 * Soak test of a pool with two workers and many streaming clients. A worker is killed every 20 seconds; at the end the pool is killed and
 * started again. Every request must end complete or with the one error that asks to retry, and the pool's memory, threads and
 * descriptors must stay flat. Prints the time to the first token through the pool and directly from a worker.
 */
final class PoolSoak {
    private static final int TOKENS = 50;
    private static final Duration STEP = Duration.ofMillis(20);
    private static final Duration KILL = Duration.ofSeconds(20);

    private final int clients;
    private final Path folder;
    private final Random random;
    private final Map<String, Integer> ends = new ConcurrentHashMap<>();
    private final List<Long> through = Collections.synchronizedList(new ArrayList<>());
    private final List<Long> direct = Collections.synchronizedList(new ArrayList<>());
    private volatile Process pool;
    private volatile URI uri;
    private volatile boolean poolIsDown;

    private PoolSoak(int clients, Path folder, long seed) {
        this.clients = clients;
        this.folder = folder;
        this.random = new Random(seed);
    }

    static void run(int seconds, int clients, long seed) throws Exception {
        Path folder = Files.createTempDirectory("pool-soak");
        PoolSoak soak = new PoolSoak(clients, folder, seed);
        try {
            soak.run(Duration.ofSeconds(seconds));
        } finally {
            soak.end();
        }
    }

    private void run(Duration time) throws Exception {
        Files.writeString(
                folder.resolve("model.properties"), "tokens=" + TOKENS + "\nstep_ms=" + STEP.toMillis() + "\n");
        start("127.0.0.1:0");
        for (int i = 0; i < 2; i++) {
            require(
                    post("/v2/workers/start", "{\"model_ref\":\"soak\"}").status() == 202,
                    "status 202 for a new worker");
        }
        awaitReady(2);
        clients(Duration.ofSeconds(Math.min(5, time.toSeconds())), false); // warm-up
        System.out.println("warm: " + ends);
        ends.clear();
        Use before = use();
        Duration busy = pool.info().totalCpuDuration().orElse(Duration.ZERO);
        clients(time, true);
        busy = pool.info().totalCpuDuration().orElse(Duration.ZERO).minus(busy);
        System.out.printf(
                "processor time of the pool: %.1f s in %d s, about %d us a token%n",
                busy.toMillis() / 1e3,
                time.toSeconds(),
                busy.toNanos() / 1000 / TOKENS / Math.max(1, ends.getOrDefault("whole", 0)));
        awaitReady(2);
        Use after = use();
        System.out.println("ends: " + ends);
        System.out.println("before: " + before + ", after: " + after);
        JsonNode state = state();
        System.out.println("restarts: "
                + state.path("workers")
                        .valueStream()
                        .map(each -> each.path("restarts"))
                        .toList());
        require(
                ends.keySet().stream()
                        .allMatch(end ->
                                List.of("whole", "WORKER_LOST", "pool killed").contains(end)),
                "no other end");
        require(
                ends.getOrDefault("whole", 0)
                        > 0.5 * ends.values().stream().mapToInt(n -> n).sum(),
                "most are whole");
        require(state.path("requests").intValue() == 0, "no request is left");
        require(after.descriptors <= before.descriptors + 16, "descriptors are flat");
        require(after.threads <= before.threads + 16, "threads are flat");
        require(after.megabytes <= before.megabytes + 128, "memory is flat");
        measureTheFirstToken();
        restartThePool();
        System.out.println("pool soak: passed");
    }

    /** Runs last, when the JIT has compiled the programs. */
    private void measureTheFirstToken() throws Exception {
        through.clear();
        direct.clear();
        clients(Duration.ofSeconds(10), false);
        System.out.printf(
                "first token, p50: %.2f ms through the pool, %.2f ms directly from the worker, %.2f ms added%n",
                median(through), median(direct), median(through) - median(direct));
    }

    /** Kills the pool under load: the next pool adopts the workers, and clients of a worker are not affected. */
    private void restartThePool() throws Exception {
        List<String> before = pids();
        URI worker = URI.create(state().path("workers").path(0).path("uri").asString());
        try (ExecutorService running = Executors.newVirtualThreadPerTaskExecutor()) {
            List<Future<String>> fromWorker = new ArrayList<>();
            List<Future<String>> throughPool = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                fromWorker.add(running.submit(() -> one(worker, direct)));
                throughPool.add(running.submit(() -> one(uri, through)));
            }
            Thread.sleep(300);
            poolIsDown = true;
            pool.destroyForcibly().waitFor();
            start("127.0.0.1:" + uri.getPort());
            poolIsDown = false;
            for (Future<String> each : fromWorker) {
                require(each.get().equals("whole"), "a complete stream from the worker, but got " + each.get());
            }
            for (Future<String> each : throughPool) {
                require(List.of("whole", "pool killed").contains(each.get()), "a known end, but " + each.get());
            }
        }
        awaitReady(2);
        require(pids().equals(before), "the same processes: " + before + ", but " + pids());
        require(one(uri, through).equals("whole"), "it serves again");
        System.out.println("pool killed and started again: processes " + before + " were adopted");
    }

    private void start(String listen) throws IOException {
        List<String> command = new ArrayList<>(
                List.of(ProcessHandle.current().info().command().orElseThrow(), "-XX:+UseSerialGC", "-Xmx256m", "-cp"));
        command.addAll(List.of(System.getProperty("java.class.path"), StubPool.class.getName()));
        command.addAll(List.of(
                folder.resolve("state").toString(),
                listen,
                folder.resolve("model.properties").toString()));
        pool = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        BufferedReader out = pool.inputReader(StandardCharsets.UTF_8);
        String line = out.readLine();
        require(line != null, "the pool starts");
        uri = URI.create(line);
    }

    private void end() throws Exception {
        List<String> workers = pids();
        pool.getOutputStream().close();
        require(pool.waitFor(90, TimeUnit.SECONDS), "the pool ends with its input");
        for (String pid : workers) {
            // the parent of an adopted worker needs a moment to reap it
            for (int i = 0; i < 100 && ProcessHandle.of(Long.parseLong(pid)).isPresent(); i++) {
                Thread.sleep(100);
            }
            require(ProcessHandle.of(Long.parseLong(pid)).isEmpty(), "no orphan, but " + pid);
        }
    }

    private void clients(Duration time, boolean kill) throws Exception {
        long deadline = System.nanoTime() + time.toNanos();
        try (ExecutorService running = Executors.newVirtualThreadPerTaskExecutor()) {
            List<Future<?>> all = new ArrayList<>();
            for (int i = 0; i < clients; i++) {
                boolean probe = !kill && i % 5 == 0;
                all.add(running.submit(() -> {
                    sleepRandomPartOf(STEP.multipliedBy(TOKENS));
                    while (System.nanoTime() < deadline) {
                        sleepRandomPartOf(STEP);
                        ends.merge(one(uri, through), 1, Integer::sum);
                        if (probe) {
                            URI worker = anyWorker();
                            sleepRandomPartOf(STEP);
                            one(worker, direct);
                        }
                    }
                    return "";
                }));
            }
            for (long at = System.nanoTime() + KILL.toNanos() / 4; kill && at < deadline; at += KILL.toNanos()) {
                TimeUnit.NANOSECONDS.sleep(at - System.nanoTime());
                List<String> pids = pids();
                String victim = pids.get(random.nextInt(pids.size()));
                ProcessHandle.of(Long.parseLong(victim)).ifPresent(ProcessHandle::destroyForcibly);
            }
            for (Future<?> each : all) {
                each.get();
            }
        }
    }

    /**
     * Sleeps for a random part of a period. Of a step: the streams of a worker advance together, so a client that asks right after its
     * stream ended would wait for nearly a whole step, and one that comes a little later, through the pool, for the step after. Of an
     * answer, at the start: all answers have the same length, so clients that start together would always return together.
     */
    private static void sleepRandomPartOf(Duration time) throws InterruptedException {
        TimeUnit.NANOSECONDS.sleep(ThreadLocalRandom.current().nextLong(time.toNanos()));
    }

    private URI anyWorker() throws IOException {
        List<String> uris = state().path("workers")
                .valueStream()
                .map(each -> each.path("uri").asString())
                .filter(each -> !each.isEmpty())
                .toList();
        return URI.create(uris.get((int) (System.nanoTime() % uris.size())));
    }

    /** Runs one stream and returns how it ended. */
    private String one(URI server, List<Long> firstTokens) {
        long begin = System.nanoTime();
        int tokens = 0;
        try (RawClient client = new RawClient(server.getPort())) {
            client.socket().setSoTimeout(120_000);
            client.post(
                    "/v1/completions",
                    "{\"model\":\"soak\",\"prompt\":\"x\",\"max_tokens\":" + TOKENS + ",\"stream\":true}");
            String status = client.line();
            if (!status.contains("200")) {
                return "answered " + status;
            }
            client.openStream();
            for (String event = client.event(); ; event = client.event()) {
                if (tokens++ == 0) {
                    firstTokens.add(System.nanoTime() - begin);
                }
                if (event.equals("[DONE]")) {
                    return tokens > TOKENS ? "whole" : "too short: " + tokens;
                }
                if (event.contains("\"error\"")) {
                    return Jackson.JSON.readTree(event).path("error_code").asString();
                }
            }
        } catch (IOException broken) {
            return poolIsDown || !pool.isAlive() ? "pool killed" : "broken: " + broken.getMessage();
        }
    }

    private RawClient.Reply post(String path, String json) throws IOException {
        try (RawClient client = new RawClient(uri.getPort())) {
            client.socket().setSoTimeout(60_000);
            return client.post(path, json).reply();
        }
    }

    private JsonNode state() throws IOException {
        try (RawClient client = new RawClient(uri.getPort())) {
            client.socket().setSoTimeout(60_000);
            return Jackson.JSON.readTree(client.get("/v2/state").reply().body());
        }
    }

    private void awaitReady(int count) throws Exception {
        for (int i = 0; i < 1200; i++) {
            long ready = state().path("workers")
                    .valueStream()
                    .filter(each -> List.of("READY", "BUSY")
                            .contains(each.path("status").asString()))
                    .count();
            if (ready == count) {
                return;
            }
            Thread.sleep(100);
        }
        throw new AssertionError("expected " + count + " ready workers: " + state());
    }

    private List<String> pids() throws IOException {
        try (Stream<Path> entries = Files.list(folder.resolve("state").resolve("workers"))) {
            List<String> pids = new ArrayList<>();
            for (Path entry : entries.filter(each -> each.toString().endsWith(".json"))
                    .sorted()
                    .toList()) {
                pids.add(Jackson.JSON
                        .readTree(Files.readAllBytes(entry))
                        .path("pid")
                        .asString());
            }
            return pids;
        }
    }

    /** Resources of the pool's process. */
    private record Use(long descriptors, long threads, long megabytes) {}

    private Use use() throws Exception {
        Thread.sleep(1000);
        Path process = Path.of("/proc", Long.toString(pool.pid()));
        try (Stream<Path> open = Files.list(process.resolve("fd"))) {
            List<String> status = Files.readAllLines(process.resolve("status"));
            return new Use(open.count(), number(status, "Threads:"), number(status, "VmRSS:") >> 10);
        }
    }

    private static long number(List<String> status, String key) {
        return status.stream()
                .filter(line -> line.startsWith(key))
                .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")))
                .findFirst()
                .orElseThrow();
    }

    private static double median(List<Long> nanos) {
        long[] sorted = nanos.stream().mapToLong(Long::longValue).sorted().toArray();
        require(sorted.length > 0, "a stream had a token");
        return Arrays.stream(sorted).skip(sorted.length / 2).findFirst().orElseThrow() / 1e6;
    }

    private static void require(boolean right, String what) {
        if (!right) {
            throw new AssertionError("expected: " + what);
        }
    }
}
