package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.conformance.TinyServer.Setup;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.serve.Worker;
import dev.starforge.serve.WorkerOptions;
import dev.starforge.serve.log.EventLog;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Socket;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;

/** A complete worker on a real socket with a tiny model. */
@ParameterizedClass
@ValueSource(booleans = {false, true})
final class ServedModelTest {
    private static final String MODEL = "starcoder2";
    private static final Pattern SAMPLE =
            Pattern.compile("([a-zA-Z_:][a-zA-Z0-9_:]*)(\\{[^}]*})? (-?[0-9.eE+-]+|\\+Inf|NaN)");

    private final HttpClient client = HttpClient.newHttpClient();
    private final Tokenizer tokenizer =
            Tokenizer.read(TinyModel.GOLDEN.resolve(MODEL).resolve("tokenizer.json"));
    private TinyServer server;
    private Worker worker;

    @Parameter
    private boolean asynchronous;

    private Setup setup() {
        return Setup.of(MODEL, asynchronous);
    }

    @BeforeEach
    void start() throws Exception {
        server = new TinyServer(setup());
        EventLog quiet = new EventLog(
                line -> {}, EventLog.LogFormat.JSON, EventLog.LogLevel.ERROR, Clock.systemUTC(), List.of(), Map.of());
        worker = Worker.start(WorkerOptions.local("worker-1", MODEL, 0), quiet, Clock.systemUTC(), new Random(7));
        worker.open(server.scheduler);
    }

    @AfterEach
    void end() {
        server.device.resume();
        worker.close();
        server.close();
        client.close();
    }

    private String get(String path) throws Exception {
        return client.send(
                        HttpRequest.newBuilder(worker.uri().resolve(path)).build(),
                        HttpResponse.BodyHandlers.ofString())
                .body();
    }

    private String post(String path, String json) throws Exception {
        HttpResponse<String> answer = client.send(
                HttpRequest.newBuilder(worker.uri().resolve(path))
                        .timeout(Duration.ofSeconds(20))
                        .POST(HttpRequest.BodyPublishers.ofString(json.replace('\'', '"')))
                        .build(),
                HttpResponse.BodyHandlers.ofString());
        assertThat(answer.statusCode()).as(answer.body()).isEqualTo(200);
        return answer.body();
    }

    private static List<JsonNode> events(String body) {
        return Arrays.stream(body.split("\n\n"))
                .map(event -> event.substring("data: ".length()))
                .filter(event -> !event.equals("[DONE]"))
                .map(event -> Jackson.JSON.readTree(event))
                .toList();
    }

    private String continuation(String prompt, int tokens) {
        try (SingleSequenceRun alone = new SingleSequenceRun(MODEL)) {
            return tokenizer.decode(alone.greedy(tokenizer.encode(prompt, true), tokens), true);
        }
    }

    /** All samples of a metrics scrape by name and labels. Fails on an invalid line. */
    private Map<String, Double> metrics() throws Exception {
        Map<String, Double> values = new HashMap<>();
        for (String line : get("/metrics").split("\n")) {
            if (!line.startsWith("#")) {
                Matcher sample = SAMPLE.matcher(line);
                assertThat(sample.matches()).as(line).isTrue();
                String labels = sample.group(2) == null ? "" : sample.group(2);
                values.put(sample.group(1) + labels, Double.valueOf(sample.group(3)));
            }
        }
        return values;
    }

    private static double value(Map<String, Double> metrics, String name) {
        return metrics.entrySet().stream()
                .filter(each -> each.getKey().startsWith(name))
                .mapToDouble(Map.Entry::getValue)
                .sum();
    }

    @Test
    void executeStreamsModelOutput() throws Exception {
        List<JsonNode> events =
                events(post("/execute", "{'job_id':'a','prompt':'def add(a, b):','max_tokens':9,'temperature':0}"));
        assertThat(events.getFirst().get("type").asString()).isEqualTo("started");
        StringBuilder text = new StringBuilder();
        events.stream()
                .filter(event -> event.get("type").asString().equals("token"))
                .forEach(event -> text.append(event.get("t").asString()));
        assertThat(text.toString()).isNotEmpty().isEqualTo(continuation("def add(a, b):", 9));
        JsonNode end = events.getLast();
        assertThat(end.get("type").asString()).isEqualTo("end");
        assertThat(end.get("stop_reason").asString()).isEqualTo("MAX_TOKENS");
        assertThat(end.get("tokens_out").asInt()).isEqualTo(9);
    }

    /** Beside a request that may write anything: what was taken back is spelled again, and not told twice. */
    @Test
    void promptCanEndInsideAToken() throws Exception {
        String prompt = "def add(a, b):\n    retu";
        String asked = "{'prompt':'" + prompt.replace("\n", "\\n") + "','max_tokens':12,'temperature':%s,'seed':5,"
                + "'token_healing':%b,'stream':%b}";
        CompletableFuture<String> beside =
                CompletableFuture.supplyAsync(() -> text(asked.formatted("0", false, false)));
        String healed = text(asked.formatted("0", true, false));
        assertThat(beside.join()).isEqualTo(continuation(prompt, 12));
        for (String temperature : List.of("0", "0.9")) {
            String expected = temperature.equals("0") ? healed : text(asked.formatted(temperature, true, false));
            String streamed = events(post("/v1/completions", asked.formatted(temperature, true, true))).stream()
                    .map(event -> event.get("choices").get(0).get("text").asString())
                    .collect(Collectors.joining());
            assertThat(streamed).isNotEmpty().isEqualTo(expected);
            int[] taken = tokenizer.heal(tokenizer.encode(prompt, true)).ids();
            assertThat(taken).hasSizeLessThan(tokenizer.encode(prompt, true).length);
            try (SingleSequenceRun alone = new SingleSequenceRun(MODEL)) {
                assertThat(prompt + expected)
                        .isEqualTo(tokenizer.decode(taken, true)
                                + alone.healed(
                                        tokenizer,
                                        prompt,
                                        12,
                                        SamplingParams.PLAIN
                                                .withTemperature(Double.parseDouble(temperature))
                                                .withSeed(5)));
            }
        }
    }

    private String text(String asked) {
        try {
            JsonNode answer = Jackson.JSON.readTree(post("/v1/completions", asked));
            return answer.get("choices").get(0).get("text").asString();
        } catch (Exception failure) {
            throw new AssertionError(failure);
        }
    }

    @Test
    void completionsAreAnsweredAndCountedInMetrics() throws Exception {
        String asked = "{'model':'starcoder2','prompt':'import java.util.List; class A { void run() { int i = 0; } }',"
                + "'max_tokens':8,'temperature':0,'logprobs':2}";
        JsonNode first = Jackson.JSON.readTree(post("/v1/completions", asked));
        JsonNode second = Jackson.JSON.readTree(post("/v1/completions", asked));
        JsonNode choice = first.get("choices").get(0);
        assertThat(choice.get("text").asString())
                .isEqualTo(continuation("import java.util.List; class A { void run() { int i = 0; } }", 8));
        assertThat(choice.get("finish_reason").asString()).isEqualTo("length");
        assertThat(choice.get("logprobs").get("token_logprobs")).hasSize(8);
        assertThat(second.get("choices")).isEqualTo(first.get("choices"));
        assertThat(first.get("usage").get("completion_tokens").asInt()).isEqualTo(8);
        server.idle(setup());
        Map<String, Double> metrics = metrics();
        assertThat(value(metrics, "worker_tokens_generated_total")).isEqualTo(16);
        assertThat(value(metrics, "worker_requests_total{outcome=\"ok\"")).isEqualTo(2);
        assertThat(value(metrics, "vllm:kv_cache_usage_perc")).isZero();
        assertThat(value(metrics, "vllm:num_requests_running")).isZero();
    }

    /** With the engine held before the second token, the first is on the wire; before the third, where steps overlap with it. */
    @Test
    void tokensAreFlushedImmediatelyAndDroppedConnectionReleasesBlocks() throws Exception {
        server.device.pause();
        try (Socket socket = new Socket("127.0.0.1", worker.uri().getPort())) {
            socket.setSoTimeout(20_000);
            byte[] body = "{\"job_id\":\"gone\",\"prompt\":\"class A {\",\"max_tokens\":200,\"temperature\":0}"
                    .getBytes(StandardCharsets.UTF_8);
            socket.getOutputStream()
                    .write(("POST /execute HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + body.length + "\r\n\r\n")
                            .getBytes(StandardCharsets.ISO_8859_1));
            socket.getOutputStream().write(body);
            TinyServer.await("the prompt", server.device::isHeld);
            int launched = asynchronous ? 2 : 1;
            server.device.allow(launched);
            BufferedReader in =
                    new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            while (!in.readLine().contains("\"token\"")) {
                // up to the first token
            }
            assertThat(server.device.steps).hasSize(launched);
            TinyServer.await("blocks in use", () -> server.scheduler.status().kvUsage() > 0);
            assertThat(get("/health")).contains("\"status\"");
        }
        TinyServer.await("the cancellation", () -> cancelled() == 1);
        server.device.resume();
        server.idle(setup());
        assertThat(server.device.steps).hasSizeLessThan(5);
        executeStreamsModelOutput();
    }

    private double cancelled() {
        try {
            return value(metrics(), "worker_requests_total{outcome=\"cancelled\"");
        } catch (Exception failure) {
            throw new AssertionError(failure);
        }
    }

    @Test
    void concurrentClientsGetSameTokensAsAlone() throws Exception {
        Map<Integer, CompletableFuture<String>> answers = new HashMap<>();
        for (int i = 0; i < 8; i++) {
            int number = i;
            CompletableFuture<String> answer = new CompletableFuture<>();
            answers.put(i, answer);
            Thread.ofVirtual().start(() -> {
                try {
                    answer.complete(post(
                            "/v1/completions",
                            "{'model':'starcoder2','prompt':'" + prompt(number)
                                    + "','max_tokens':12,'temperature':0}"));
                } catch (Exception failure) {
                    answer.completeExceptionally(failure);
                }
            });
        }
        for (int i = 0; i < 8; i++) {
            JsonNode answer = Jackson.JSON.readTree(answers.get(i).get());
            assertThat(answer.get("choices").get(0).get("text").asString()).isEqualTo(continuation(prompt(i), 12));
        }
    }

    private static String prompt(int number) {
        return "for (int i = " + number + "; i < n; i++) {" + " sum += i;".repeat(number);
    }
}
