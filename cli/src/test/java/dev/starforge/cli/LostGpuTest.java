package dev.starforge.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A worker on CUDA ends by codes that a pool can read, and says CUDA's name of the failure; with a driver that is made for it. */
final class LostGpuTest {
    private static final int DEVICE_LOST = 4;
    private static final int OUT_OF_MEMORY = 5;

    @TempDir
    private Path folder;

    @BeforeEach
    void compileTheDriver() throws IOException, InterruptedException {
        FakeCuda.compile(folder);
    }

    private Process start(int port, Map<String, String> environment) throws IOException {
        List<String> command = new ArrayList<>();
        command.addAll(List.of("worker", "--worker-id", "w1", "--model", "../golden/gguf/micro-Q8_0.gguf"));
        command.addAll(List.of("--device", "cuda", "--no-callback", "--port", String.valueOf(port)));
        ProcessBuilder builder = FakeCuda.starforge(folder, command);
        builder.environment().putAll(environment);
        return builder.start();
    }

    /** What the worker said, and its end. */
    private String ended(Process worker, int code) throws IOException, InterruptedException {
        boolean over = worker.waitFor(60, TimeUnit.SECONDS);
        worker.destroyForcibly();
        String log = Files.readString(folder.resolve("log"), StandardCharsets.UTF_8);
        assertThat(over).as(log).isTrue();
        assertThat(worker.exitValue()).as(log).isEqualTo(code);
        return log;
    }

    @Test
    void anErrorThatStaysEndsTheWorker() throws IOException, InterruptedException {
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        Path lost = folder.resolve("lost");
        Process worker = start(port, Map.of("FAKE_CUDA_LOST", lost.toString()));
        try (HttpClient client = HttpClient.newHttpClient()) {
            URI server = URI.create("http://127.0.0.1:" + port);
            assertThat(ask(client, worker, server)).isEqualTo(200);
            assertThat(folder.resolve(Path.of("starforge", "kernels")))
                    .as("what was compiled is cached")
                    .isNotEmptyDirectory();
            Files.createFile(lost);
            assertThat(ask(client, worker, server)).isNotEqualTo(200);
        }
        assertThat(ended(worker, DEVICE_LOST)).contains("CUDA_ERROR_ILLEGAL_ADDRESS");
    }

    /** The status of a completion, asked for until somebody listens; 0 where the worker ends instead. */
    private static int ask(HttpClient client, Process worker, URI server) throws InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(server.resolve("/v1/completions"))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(
                        "{\"prompt\":\"def f\",\"max_tokens\":4,\"ignore_eos\":true}"))
                .build();
        while (worker.isAlive()) {
            try {
                int status = client.send(request, HttpResponse.BodyHandlers.ofString())
                        .statusCode();
                if (status != 503) {
                    return status;
                }
            } catch (IOException nobodyYet) {
                Thread.sleep(50);
            }
            Thread.sleep(50);
        }
        return 0;
    }

    @Test
    void withoutMemoryItEndsByAnotherCode() throws IOException, InterruptedException {
        assertThat(ended(start(0, Map.of("FAKE_CUDA_FAILS", "cuMemAlloc_v2")), OUT_OF_MEMORY))
                .contains("cuda:0: reserve ", " are free", "choose a smaller model", "contexts left: 0");
    }

    @Test
    void aDeviceThatDoesNotOpenGivesItsContextBack() throws IOException, InterruptedException {
        assertThat(ended(start(0, Map.of("FAKE_CUDA_FAILS", "cuStreamCreate")), DEVICE_LOST))
                .contains("open cuda:0: CUDA_ERROR_UNKNOWN", "contexts left: 0");
    }
}
