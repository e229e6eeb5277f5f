package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.cli.process.LauncherCommand;
import dev.starforge.text.json.Jackson;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** The pool as a person starts it, with workers that are this program and a real model; and then it is killed. */
@DisabledOnOs(OS.WINDOWS)
final class PoolCommandTest {
    private static final Path MICRO = Path.of("..", "golden", "gguf", "micro-Q8_0.gguf");

    @TempDir
    private Path folder;

    private final HttpClient client = HttpClient.newHttpClient();
    private Process pool;
    private URI uri;

    @AfterEach
    void leaveNothingBehind() throws Exception {
        List<Long> workers = Files.exists(folder.resolve("state/workers")) ? pids() : List.of();
        if (pool != null) {
            pool.destroyForcibly().waitFor();
        }
        workers.forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
        client.close();
    }

    private void start(String listen) throws IOException {
        List<String> command = new ArrayList<>(LauncherCommand.command());
        command.addAll(List.of("pool", "--config", folder.resolve("pool.yaml").toString(), "--listen", listen));
        ProcessBuilder builder = new ProcessBuilder(command)
                .redirectError(folder.resolve("pool.err").toFile());
        builder.environment().put("STARFORGE_HOME", folder.resolve("home").toString());
        pool = builder.start();
        BufferedReader out = pool.inputReader(StandardCharsets.UTF_8);
        String line = out.readLine();
        assertThat(line).as(Files.readString(folder.resolve("pool.err"))).startsWith("pool test at ");
        uri = URI.create(line.substring("pool test at ".length()));
    }

    private static HttpRequest post(URI server, String path, String json) {
        return HttpRequest.newBuilder(server.resolve(path))
                .timeout(Duration.ofSeconds(150))
                .POST(BodyPublishers.ofString(json.replace('\'', '"')))
                .build();
    }

    private JsonNode ask(int status, String path, String json) throws Exception {
        HttpResponse<String> reply = client.send(post(uri, path, json), BodyHandlers.ofString());
        assertThat(reply.statusCode()).as(reply.body()).isEqualTo(status);
        return Jackson.JSON.readTree(reply.body());
    }

    private JsonNode worker() throws Exception {
        HttpRequest request = HttpRequest.newBuilder(uri.resolve("/v2/state")).build();
        return Jackson.JSON
                .readTree(client.send(request, BodyHandlers.ofString()).body())
                .path("workers")
                .path(0);
    }

    private void awaitStatus(String... wanted) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!List.of(wanted).contains(worker().path("status").asString())) {
            assertThat(System.nanoTime())
                    .as("%s: %s", Arrays.toString(wanted), worker())
                    .isLessThan(deadline);
            Thread.sleep(20);
        }
    }

    private List<Long> pids() throws IOException {
        List<Long> pids = new ArrayList<>();
        try (Stream<Path> entries = Files.list(folder.resolve("state/workers"))) {
            for (Path entry :
                    entries.filter(each -> each.toString().endsWith(".json")).toList()) {
                pids.add(Jackson.JSON
                        .readTree(Files.readAllBytes(entry))
                        .path("pid")
                        .longValue());
            }
        }
        return pids;
    }

    @Test
    void aConfigThatOthersCanWriteIsRefused() throws Exception {
        Path config = Files.writeString(folder.resolve("pool.yaml"), "pool: {api_key_file: keys, state: state}");
        Path keys = Files.writeString(folder.resolve("keys"), "key\n");
        for (Path writable : List.of(config, keys)) {
            Files.setPosixFilePermissions(writable, PosixFilePermissions.fromString("rw-r--rw-"));
            CommandOutcome outcome = CommandOutcome.run("pool", "--config", config.toString());
            assertThat(outcome.code()).isEqualTo(2);
            assertThat(outcome.err()).contains(writable + ": all users of this machine can write this file");
            Files.setPosixFilePermissions(writable, PosixFilePermissions.fromString("rw-r--r--"));
        }
    }

    @Test
    void servesSurvivesAndEnds() throws Exception {
        byte[] model = Files.readAllBytes(MICRO);
        Files.write(folder.resolve("broken.gguf"), Arrays.copyOf(model, model.length / 2));
        Files.writeString(folder.resolve("pool.yaml"), """
            pool: {id: test, state: state}
            restart: {backoff_s: 0.1}
            models:
              - {name: micro, path: pulled-before, device: cpu}
              - {name: broken, path: broken.gguf, device: cpu}
            """);
        Path store = Files.createDirectories(folder.resolve("home").resolve("models"));
        Files.copy(MICRO, store.resolve("pulled-before.gguf"));
        start("127.0.0.1:0");
        String prompt = "{'model':'micro','prompt':'def hello():','max_tokens':4,'temperature':0}";
        String first = ask(200, "/v1/completions", prompt).path("choices").toString();
        JsonNode refused = ask(400, "/v1/completions", "{'model':'broken','prompt':'x'}");
        assertThat(refused.path("error_code").asString()).isEqualTo("MODEL_INCOMPATIBLE");
        assertThat(refused.path("message").asString()).contains("broken.gguf");
        assertThat(ask(503, "/v2/workers/start", "{'model_ref':'micro','device':'metal'}")
                        .toString())
                .as("a device that this machine has not")
                .contains("DEVICE_UNAVAILABLE", "cpu");

        List<Long> pids = pids();
        URI straight = URI.create(worker().path("uri").asString());
        String stream = "{'prompt':'x','max_tokens':200,'stream':true,'temperature':0}";
        HttpResponse<InputStream> running =
                client.send(post(straight, "/v1/completions", stream), BodyHandlers.ofInputStream());
        pool.destroyForcibly().waitFor();
        start("127.0.0.1:" + uri.getPort());
        awaitStatus("READY", "BUSY");
        assertThat(pids()).as("taken over").isEqualTo(pids);
        String text = new String(running.body().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(text).as("who asked the worker itself noticed nothing").endsWith("data: [DONE]\n\n");
        assertThat(ask(200, "/v1/completions", prompt).path("choices").toString())
                .isEqualTo(first);
        assertThat(worker().path("restarts").intValue()).isZero();

        ProcessHandle.of(pids.getFirst()).orElseThrow().destroyForcibly();
        assertThat(ask(200, "/v1/completions", prompt).path("choices").toString())
                .as("asked again when it is back")
                .isEqualTo(first);
        assertThat(worker().path("restarts").intValue()).isEqualTo(1);

        List<Long> last = pids();
        pool.destroy();
        assertThat(pool.waitFor(60, TimeUnit.SECONDS)).isTrue();
        assertThat(pool.exitValue()).isZero();
        assertThat(last).hasSize(1).noneMatch(pid -> ProcessHandle.of(pid).isPresent());
        assertThat(pids()).isEmpty();
    }
}
