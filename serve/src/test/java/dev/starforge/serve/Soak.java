package dev.starforge.serve;

import dev.starforge.serve.http.HttpLimits;
import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;

/**
 * Many clients for a long time: some read their answers to the end, some leave at a random token, cancel, or ask for what
 * there is not. No error may come that was not asked for, and in the end nothing may be left: no sequence, no connection, no
 * thread, no descriptor, no heap.
 */
final class Soak {
    private static final int CLIENTS = 50;
    private static final String REPLY = "Hello, world! This is a reply.";

    private final Fixture fixture;
    private final Map<String, Integer> done = new ConcurrentSkipListMap<>();

    private Soak(Fixture fixture) {
        this.fixture = fixture;
    }

    /** What was done, and what was left of it. */
    static String run(Duration time, long seed) throws Exception {
        try (Fixture fixture = new Fixture(new FakeEngine(), options -> options.withLimits(HttpLimits.DEFAULT, 256))) {
            fixture.engine.step(Duration.ofMillis(1));
            Soak soak = new Soak(fixture);
            soak.clients(Duration.ofSeconds(1), seed); // so that what is made once is made
            Left before = soak.left();
            soak.clients(time, seed + 1);
            Left after = soak.left();
            after.requireNoMoreThan(before);
            fixture.worker.drain();
            return "%d s, %d clients: %s%nbefore %s%nafter  %s"
                    .formatted(time.toSeconds(), CLIENTS, new TreeMap<>(soak.done), before, after);
        }
    }

    private void clients(Duration time, long seed) throws Exception {
        long deadline = System.nanoTime() + time.toNanos();
        try (ExecutorService clients = Executors.newFixedThreadPool(CLIENTS)) {
            List<Future<?>> running = new ArrayList<>();
            for (int i = 0; i < CLIENTS; i++) {
                Random random = new Random(seed * CLIENTS + i);
                running.add(clients.submit(() -> {
                    for (int at = 0; System.nanoTime() < deadline; at++) {
                        String id = random.nextLong() + "-" + at;
                        done.merge(one(random, id), 1, Integer::sum);
                    }
                    return "";
                }));
            }
            for (Future<?> client : running) {
                client.get();
            }
        }
    }

    private String one(Random random, String id) throws IOException {
        String job = Fixture.quoted("{'job_id':'" + id + "','prompt':'x','max_tokens':50}");
        try (RawClient client = fixture.raw()) {
            switch (random.nextInt(6)) {
                case 0 -> {
                    client.post("/v1/completions", Fixture.quoted("{'prompt':'x','max_tokens':50}"));
                    require(client.reply().body().contains(REPLY), "a whole answer");
                    return "whole";
                }
                case 1 -> {
                    client.post("/execute", job);
                    require(client.reply().body().contains("EOS"), "a whole stream");
                    return "streamed";
                }
                case 2 -> {
                    client.post("/execute", job).openStream();
                    for (int i = random.nextInt(8); i >= 0; i--) {
                        client.event();
                    }
                    return "left";
                }
                case 3 -> {
                    client.post("/v1/completions", Fixture.quoted("{'prompt':'x','max_tokens':50,'n':3}"));
                    pause(random.nextInt(20));
                    return "left unread";
                }
                case 4 -> {
                    client.post("/execute", job).openStream().event();
                    try (RawClient other = fixture.raw()) {
                        require(
                                other.post("/cancel", Fixture.quoted("{'job_id':'" + id + "'}"))
                                                .reply()
                                                .status()
                                        == 202,
                                "202");
                    }
                    String last = client.event();
                    while (!last.contains("CANCELLED") && !last.contains("EOS")) {
                        last = client.event();
                    }
                    return last.contains("EOS") ? "cancelled too late" : "cancelled";
                }
                default -> {
                    require(
                            client.post("/v1/completions", "{\"prompt\":5}")
                                            .reply()
                                            .status()
                                    == 400,
                            "400");
                    require(client.get("/nowhere").reply().status() == 404, "404");
                    return "refused";
                }
            }
        } catch (EOFException early) {
            throw new AssertionError("an answer broke off", early);
        }
    }

    private static void require(boolean right, String what) {
        if (!right) {
            throw new AssertionError("expected " + what);
        }
    }

    private static void pause(int millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    /** The resources in use when idle. */
    private record Left(int sequences, int connections, int threads, int descriptors, long heapMegabytes) {
        void requireNoMoreThan(Left before) {
            boolean leaked = sequences > 0
                    || connections > before.connections
                    || threads > before.threads + 8
                    || descriptors > before.descriptors + 8
                    || heapMegabytes > before.heapMegabytes + 64;
            require(!leaked, "no more than before: " + before + ", but there is " + this);
        }
    }

    private Left left() throws Exception {
        Fixture.await("all sequences have ended", () -> fixture.engine.live() == 0);
        Fixture.await("all connections have ended", () -> fixture.worker.connections() == 0);
        fixture.log.clear();
        fixture.engine.requests.clear();
        System.gc();
        Thread.sleep(200);
        Runtime runtime = Runtime.getRuntime();
        return new Left(
                fixture.engine.live(),
                fixture.worker.connections(),
                threads(),
                descriptors(),
                (runtime.totalMemory() - runtime.freeMemory()) >> 20);
    }

    /** But for those that wait for requests: they are as many as there ever were at once, and end after a minute. */
    private static int threads() {
        return (int) Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> !thread.getName().startsWith("request "))
                .count();
    }

    private static int descriptors() throws IOException {
        Path folder = Path.of("/proc/self/fd");
        if (!Files.exists(folder)) {
            return 0;
        }
        try (Stream<Path> open = Files.list(folder)) {
            return (int) open.count();
        }
    }
}
