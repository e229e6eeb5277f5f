package dev.starforge.bench.serve;

import dev.starforge.serve.RawClient;
import dev.starforge.text.json.Jackson;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;

/** A server as a child process, with its open descriptors, threads and heap. */
final class ServerProcess implements AutoCloseable {
    private static final Pattern SERVING = Pattern.compile("serving .*:([0-9]+)");
    private static final Pattern USED = Pattern.compile("used ([0-9]+)K");
    private static final int TIMEOUT_MILLIS = 120_000; // for a loaded machine

    private final Process process;
    private final int port;

    private ServerProcess(Process process, int port) {
        this.process = process;
        this.port = port;
    }

    /** Starts a server and waits until it serves; port 0 selects a free port. */
    static ServerProcess start(List<String> command, int port) throws IOException {
        List<String> whole = new ArrayList<>(command);
        whole.addAll(List.of("--port", Integer.toString(port), "--log-level", "error"));
        Process process = new ProcessBuilder(whole)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        BufferedReader said = process.inputReader(StandardCharsets.UTF_8);
        for (String line = said.readLine(); line != null; line = said.readLine()) {
            Matcher serving = SERVING.matcher(line);
            if (serving.find()) {
                return new ServerProcess(process, Integer.parseInt(serving.group(1)));
            }
        }
        process.destroyForcibly();
        throw new IOException("expected a running server from " + String.join(" ", whole) + ", but the process ended");
    }

    int port() {
        return port;
    }

    RawClient client() throws IOException {
        RawClient client = new RawClient(port);
        client.socket().setSoTimeout(TIMEOUT_MILLIS);
        return client;
    }

    void terminate() {
        process.destroy();
    }

    void kill() {
        process.destroyForcibly();
    }

    int exit() throws InterruptedException {
        ServerSoak.require(process.waitFor(TIMEOUT_MILLIS, TimeUnit.MILLISECONDS), "the end of the process");
        return process.exitValue();
    }

    void await(String what, Callable<Boolean> happened) throws Exception {
        long begin = System.nanoTime();
        while (!happened.call()) {
            ServerSoak.require(System.nanoTime() - begin < TIMEOUT_MILLIS * 1_000_000L, what);
            Thread.sleep(50);
        }
    }

    /** Resources of an idle server. */
    record Resources(int running, double kvUsage, int threads, int descriptors, long heapMegabytes) {
        void requireAtMost(Resources before) {
            boolean leaked = running > 0
                    || kvUsage > 0
                    || threads > before.threads + 16
                    || descriptors > before.descriptors + 8
                    || heapMegabytes > before.heapMegabytes + 32;
            ServerSoak.require(!leaked, "no more than before: " + before + ", but there is " + this);
        }
    }

    Resources resources(Duration within) throws Exception {
        long deadline = System.nanoTime() + within.toNanos();
        JsonNode health = health();
        while (System.nanoTime() < deadline && !isIdle(health)) {
            Thread.sleep(100);
            health = health();
        }
        Path proc = Path.of("/proc", Long.toString(process.pid()));
        int descriptors;
        try (Stream<Path> open = Files.list(proc.resolve("fd"))) {
            descriptors = (int) open.count();
        }
        int threads = Files.readAllLines(proc.resolve("status")).stream()
                .filter(line -> line.startsWith("Threads:"))
                .mapToInt(line -> Integer.parseInt(line.replaceAll("\\D", "")))
                .sum();
        return new Resources(
                health.path("running").asInt() + health.path("waiting").asInt(),
                health.path("kv_usage").asDouble(),
                threads,
                descriptors,
                heap());
    }

    private static boolean isIdle(JsonNode health) {
        return health.path("running").asInt() + health.path("waiting").asInt() == 0
                && health.path("kv_usage").asDouble() == 0;
    }

    private JsonNode health() throws IOException {
        try (RawClient client = client()) {
            return Jackson.JSON.readTree(client.get("/health").reply().body());
        }
    }

    /** Used heap in MiB after a garbage collection, from {@code jcmd}. */
    private long heap() throws IOException, InterruptedException {
        jcmd("GC.run");
        long used = 0;
        for (String line : jcmd("GC.heap_info").split("\n")) {
            Matcher each = USED.matcher(line);
            if (!line.contains("Metaspace") && !line.contains("class space") && each.find()) {
                used += Long.parseLong(each.group(1));
            }
        }
        return used >> 10;
    }

    private String jcmd(String what) throws IOException, InterruptedException {
        String tool = Path.of(System.getProperty("java.home"), "bin", "jcmd").toString();
        Process asked = new ProcessBuilder(tool, Long.toString(process.pid()), what)
                .redirectErrorStream(true)
                .start();
        String said = new String(asked.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        ServerSoak.require(asked.waitFor() == 0, "output of jcmd " + what + ", but got " + said);
        return said;
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
