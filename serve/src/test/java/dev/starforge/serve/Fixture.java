package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.log.EventLog;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BooleanSupplier;
import java.util.function.UnaryOperator;
import tools.jackson.databind.JsonNode;

/** A worker over a fake engine, on a real socket. */
public final class Fixture implements AutoCloseable {
    public final FakeEngine engine;
    public final Worker worker;
    public final Queue<String> log = new ConcurrentLinkedQueue<>();
    private final HttpClient client = HttpClient.newHttpClient();

    public Fixture() throws IOException {
        this(new FakeEngine(), options -> options);
    }

    public Fixture(FakeEngine engine, UnaryOperator<WorkerOptions> set) throws IOException {
        this.engine = engine;
        WorkerOptions options = set.apply(WorkerOptions.local("worker-1", "fake", 0));
        EventLog narration = new EventLog(
                log::add,
                EventLog.LogFormat.JSON,
                EventLog.LogLevel.DEBUG,
                Clock.systemUTC(),
                options.keys().clients(),
                Map.of("worker_id", "worker-1"));
        worker = Worker.start(options, narration, Clock.systemUTC(), new Random(7));
        worker.open(engine);
    }

    public int port() {
        return worker.uri().getPort();
    }

    public RawClient raw() throws IOException {
        return new RawClient(port());
    }

    public record Reply(int status, HttpResponse<String> response) {
        JsonNode json() {
            return Jackson.JSON.readTree(response.body());
        }

        String header(String name) {
            return response.headers().firstValue(name).orElse("");
        }
    }

    private Reply send(HttpRequest.Builder request, String... headers) throws IOException, InterruptedException {
        if (headers.length > 0) {
            request.headers(headers);
        }
        HttpResponse<String> response =
                client.send(request.timeout(Duration.ofSeconds(20)).build(), BodyHandlers.ofString());
        return new Reply(response.statusCode(), response);
    }

    Reply get(String path, String... headers) throws IOException, InterruptedException {
        return send(HttpRequest.newBuilder(uri(path)), headers);
    }

    public Reply post(String path, String json, String... headers) throws IOException, InterruptedException {
        return send(HttpRequest.newBuilder(uri(path)).POST(HttpRequest.BodyPublishers.ofString(quoted(json))), headers);
    }

    /** The data of all server-sent events of an answer. */
    List<String> events(String path, String json) throws IOException, InterruptedException {
        Reply reply = post(path, json);
        assertThat(reply.status()).as(reply.response().body()).isEqualTo(200);
        assertThat(reply.header("content-type")).startsWith("text/event-stream");
        List<String> events = new ArrayList<>();
        for (String event : reply.response().body().split("\n\n")) {
            assertThat(event).startsWith("data: ").doesNotContain("\n");
            events.add(event.substring("data: ".length()));
        }
        return events;
    }

    List<JsonNode> json(List<String> events) {
        return events.stream()
                .filter(event -> !event.equals("[DONE]"))
                .map(event -> Jackson.JSON.readTree(event))
                .toList();
    }

    /** JSON with apostrophes for quotes, which reads better in Java. */
    public static String quoted(String json) {
        return json.replace('\'', '"');
    }

    private URI uri(String path) {
        return worker.uri().resolve(path);
    }

    /** Waits for something that is to happen soon; how long it took. */
    public static Duration await(String what, BooleanSupplier happened) throws InterruptedException {
        long begin = System.nanoTime();
        while (!happened.getAsBoolean()) {
            assertThat(System.nanoTime() - begin).as(what).isLessThan(10_000_000_000L);
            Thread.sleep(1);
        }
        return Duration.ofNanos(System.nanoTime() - begin);
    }

    @Override
    public void close() {
        worker.close();
        engine.close();
        client.close();
    }
}
