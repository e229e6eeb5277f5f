package dev.starforge.serve.pool;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.RawClient;
import dev.starforge.serve.StubWorker;
import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.pool.config.ModelEntry;
import dev.starforge.serve.pool.config.PoolConfig;
import dev.starforge.serve.pool.config.RemoteEntry;
import dev.starforge.serve.pool.config.RestartPolicy;
import dev.starforge.serve.pool.process.CommandRunner;
import dev.starforge.serve.pool.worker.PoolTimeouts;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import tools.jackson.databind.JsonNode;

/** A pool on a real socket whose workers are real processes over a fake engine; what they cost to plan is invented. */
public final class PoolFixture implements AutoCloseable {
    private static final long GIGA = 1L << 30;

    /** Everything in tenths of its usual time. */
    static final PoolTimeouts QUICK = new PoolTimeouts(
            Duration.ofSeconds(30),
            Duration.ofMillis(400),
            3,
            Duration.ofMillis(1000),
            Duration.ofMillis(500),
            Duration.ofSeconds(3),
            Duration.ofSeconds(3),
            Duration.ofMillis(100),
            Duration.ofSeconds(30),
            Duration.ofSeconds(1));

    /** The same, but no worker fails a health check: a busy machine may delay an answer by more than a second. */
    static final PoolTimeouts WITHOUT_HEALTH_CHECKS = new PoolTimeouts(
            QUICK.start(),
            Duration.ofHours(1),
            QUICK.misses(),
            Duration.ofHours(1),
            QUICK.token(),
            QUICK.drain(),
            QUICK.terminate(),
            QUICK.early(),
            QUICK.request(),
            QUICK.resolve());

    /** The same, but for the time that a start may take. */
    static PoolTimeouts starting(Duration time) {
        return new PoolTimeouts(
                time,
                QUICK.health(),
                QUICK.misses(),
                QUICK.canary(),
                QUICK.token(),
                QUICK.drain(),
                QUICK.terminate(),
                QUICK.early(),
                QUICK.request(),
                QUICK.resolve());
    }

    static final RestartPolicy RESTARTS = new RestartPolicy(
            Duration.ofMillis(100), Duration.ofSeconds(1), Duration.ofSeconds(5), 5, Duration.ofSeconds(60));

    private final Path folder;
    private final List<ModelEntry> models = new ArrayList<>();
    PoolTimeouts timing = QUICK;
    CommandRunner commands = questions();
    Optional<Path> keys = Optional.empty();
    Optional<Path> adminKeys = Optional.empty();
    boolean localAdmin;
    boolean autostart;
    final List<RemoteEntry> remotes = new ArrayList<>();
    Pool pool;

    PoolFixture(Path folder) {
        this.folder = folder;
    }

    /** A model that is a file of properties; see {@link StubWorker}. */
    PoolFixture model(String name, String properties, Duration idle) throws IOException {
        Path file = folder.resolve(name + ".properties");
        Files.writeString(file, properties.replace(' ', '\n'));
        models.add(new ModelEntry(
                name, file, "", Map.of(), autostart, Optional.of(idle).filter(time -> !time.isZero())));
        return this;
    }

    PoolFixture start() throws Exception {
        return start("127.0.0.1:0");
    }

    PoolFixture start(String listen) throws Exception {
        pool = Pool.start(config(listen), parts(timing).withCommands(commands), keyList(), EventLog.silent());
        return this;
    }

    private PoolKeys keyList() throws IOException {
        return new PoolKeys(lines(keys), lines(adminKeys));
    }

    private static List<String> lines(Optional<Path> file) throws IOException {
        return file.isPresent() ? Files.readAllLines(file.get()) : List.of();
    }

    PoolConfig config(String listen) {
        return new PoolConfig(
                "test", folder.resolve("state"), listen, keys, adminKeys, localAdmin, RESTARTS, models, remotes);
    }

    /** A pool with stub workers, for programs that kill its process. */
    public static Pool startWithStubs(PoolConfig config) throws IOException, InterruptedException {
        return Pool.start(config, parts(PoolTimeouts.DEFAULT), PoolKeys.NONE, EventLog.silent());
    }

    static PoolDependencies parts(PoolTimeouts timing) {
        return PoolDependencies.ofSystem(command()).withTiming(timing).withCommands(questions());
    }

    /** How a worker is started; the folder that tests run in is where its tokenizer is beside. */
    static List<String> command() {
        return List.of(
                ProcessHandle.current().info().command().orElseThrow(),
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Xshare:auto",
                "-Xmx256m",
                "-cp",
                System.getProperty("java.class.path"),
                StubWorker.class.getName());
    }

    /** A machine of 4 GB; a worker of a model whose name has {@code big} in it takes most of that. */
    private static CommandRunner questions() {
        return (command, timeout) -> {
            if (command.contains("devices")) {
                String cpu = "{'index':0,'name':'test','memory_bytes':" + 4 * GIGA + ",'free_bytes':" + 4 * GIGA + "}";
                return printed("{'selected':'cpu','backends':[{'name':'cpu','devices':[" + cpu + "]}]}");
            }
            String model = command.get(command.indexOf("inspect") + 1);
            if (model.contains("broken")) {
                return new CommandRunner.CommandOutput(
                        1, "", "starforge: " + model + ": expected GGUF, got nothing of the kind\n");
            }
            long weights = model.contains("huge") ? 5 * GIGA : model.contains("big") ? 2 * GIGA : 1 << 20;
            return printed("{'plan':{'weight_bytes':" + weights + ",'kv_bytes':1,'step_bytes':1,'workspace_bytes':1}}");
        };
    }

    private static CommandRunner.CommandOutput printed(String json) {
        return new CommandRunner.CommandOutput(0, json.replace('\'', '"'), "");
    }

    int port() {
        return pool.uri().getPort();
    }

    RawClient client() throws IOException {
        return new RawClient(port());
    }

    JsonNode state() throws IOException {
        try (RawClient client = client()) {
            return Jackson.JSON.readTree(client.get("/v2/state").reply().body());
        }
    }

    JsonNode worker(String id) throws IOException {
        for (JsonNode worker : state().path("workers")) {
            if (worker.path("id").asString().equals(id)) {
                return worker;
            }
        }
        throw new AssertionError("no worker " + id + " in " + state());
    }

    String status(String id) {
        try {
            return worker(id).path("status").asString();
        } catch (IOException failure) {
            throw new AssertionError(failure);
        }
    }

    /** Waits for a status that may soon be over; all that was said of the worker when it was seen. */
    JsonNode awaitStatus(String id, String status) throws InterruptedException {
        AtomicReference<JsonNode> seen = new AtomicReference<>();
        await(id + " is " + status, () -> {
            try {
                seen.set(worker(id));
            } catch (IOException failure) {
                throw new AssertionError(failure);
            }
            return seen.get().path("status").asString().equals(status);
        });
        return seen.get();
    }

    JsonNode deployment() {
        try {
            return state().path("deployment");
        } catch (IOException failure) {
            throw new AssertionError(failure);
        }
    }

    int requests() {
        try {
            return state().path("requests").intValue();
        } catch (IOException failure) {
            throw new AssertionError(failure);
        }
    }

    RawClient.Reply post(String path, String json) throws IOException {
        try (RawClient client = client()) {
            client.socket().setSoTimeout(60_000);
            return client.post(path, json.replace('\'', '"')).reply();
        }
    }

    RawClient.Reply complete(String model) throws IOException {
        return post("/v1/completions", "{'model':'" + model + "','prompt':'x','max_tokens':100}");
    }

    /** Starts a worker and waits until it is ready; its id. */
    String worker(String model, boolean ready) throws Exception {
        RawClient.Reply reply = post("/v2/workers/start", "{'model_ref':'" + model + "'}");
        assertThat(reply.status()).as(reply.body()).isEqualTo(202);
        String id = Jackson.JSON.readTree(reply.body()).path("worker_id").asString();
        if (ready) {
            await(id + " is ready", () -> status(id).equals("READY"));
        }
        return id;
    }

    /** The pid of a worker's process, as the journal has it. */
    long pid(String id) throws IOException {
        return Jackson.JSON.readTree(Files.readAllBytes(entry(id))).path("pid").longValue();
    }

    private Path entry(String id) {
        return folder.resolve("state").resolve("workers").resolve(id + ".json");
    }

    void signal(String id, String signal) throws Exception {
        assertThat(new ProcessBuilder("kill", "-" + signal, Long.toString(pid(id)))
                        .start()
                        .waitFor())
                .isZero();
    }

    static Duration await(String what, BooleanSupplier happened) throws InterruptedException {
        long begin = System.nanoTime();
        while (!happened.getAsBoolean()) {
            assertThat(System.nanoTime() - begin).as(what).isLessThan(60_000_000_000L);
            Thread.sleep(10);
        }
        return Duration.ofNanos(System.nanoTime() - begin);
    }

    /** Ends the pool with its workers, and makes sure that no process is left. */
    @Override
    public void close() throws IOException {
        List<Long> pids = new ArrayList<>();
        for (JsonNode worker : state().path("workers")) {
            Path entry = entry(worker.path("id").asString());
            if (Files.exists(entry)) {
                pids.add(pid(worker.path("id").asString()));
            }
        }
        pool.drain();
        long begin = System.nanoTime(); // a process that has ended is there until its parent has looked
        while (pids.stream().anyMatch(pid -> pid > 0 && ProcessHandle.of(pid).isPresent())) {
            assertThat(System.nanoTime() - begin).as("an orphan is left").isLessThan(5_000_000_000L);
            Thread.onSpinWait();
        }
    }
}
