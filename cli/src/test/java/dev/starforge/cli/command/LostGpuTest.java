package dev.starforge.cli.command;

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
import java.util.stream.Collectors;
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

    private Process start(int port, Map<String, String> environment, String... flags) throws IOException {
        List<String> command = new ArrayList<>();
        command.addAll(List.of("worker", "--worker-id", "w1", "--model", "../golden/gguf/micro-Q8_0.gguf"));
        command.addAll(List.of("--device", "cuda", "--no-callback", "--port", String.valueOf(port)));
        command.addAll(List.of(flags));
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

    /** The script that does the same with a real GPU: its driver, which is ours in one function, hands all else on. */
    @Test
    void theScriptForRealGpusFindsWhatItLooksFor() throws IOException, InterruptedException {
        Path launcher = folder.resolve("starforge");
        String command = CliProcess.command(List.of()).stream()
                .map(word -> "'" + word + "'")
                .collect(Collectors.joining(" "));
        Files.writeString(launcher, "#!/bin/sh\nexec " + command + " \"$@\"\n");
        assertThat(launcher.toFile().setExecutable(true)).isTrue();
        ProcessBuilder script = new ProcessBuilder("../bench/gpu-faults/run", launcher.toString())
                .redirectErrorStream(true)
                .redirectOutput(folder.resolve("log").toFile());
        script.environment().put("LD_LIBRARY_PATH", folder.toString());
        script.environment().put("XDG_CACHE_HOME", folder.toString());
        script.environment().put("GPU_FAULTS_ONLY", "error");
        assertThat(ended(script.start(), 0)).containsSubsequence("INFERENCE_FAILED", "serve ends with 4");
    }

    /** Polls for the status of a completion until the worker listens; returns 0 if the worker exits. */
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
    void withoutMemoryForAContextItEndsByTheSameCode() throws IOException, InterruptedException {
        assertThat(ended(start(0, Map.of("FAKE_CUDA_FAILS", "cuDevicePrimaryCtxRetain")), OUT_OF_MEMORY))
                .contains("open cuda:0: ", (3L << 30) + " of " + (8L << 30) + " bytes are in use", "contexts left: 0");
    }

    /** Kernels are loaded into the GPU's memory, too, and the first time when the device is checked. */
    @Test
    void withoutMemoryForAKernelItEndsByTheSameCode() throws IOException, InterruptedException {
        assertThat(ended(start(0, Map.of("FAKE_CUDA_FAILS", "cuModuleLoadData")), OUT_OF_MEMORY))
                .contains("CUDA_ERROR_OUT_OF_MEMORY", "end what else uses the GPU");
    }

    /** A graph is instantiated when the warm-up records its second step. */
    @Test
    void withoutMemoryForTheFirstStepsItEndsByTheSameCode() throws IOException, InterruptedException {
        assertThat(ended(start(0, Map.of("FAKE_CUDA_FAILS", "cuGraphInstantiateWithFlags")), OUT_OF_MEMORY))
                .contains("capture: CUDA_ERROR_OUT_OF_MEMORY");
    }

    @Test
    void moreMemoryForKeysAndValuesThanTheDeviceHasIsRefused() throws IOException, InterruptedException {
        assertThat(ended(start(0, Map.of(), "--kv-memory", "9G"), OUT_OF_MEMORY))
                .contains(
                        "cuda:0: --kv-memory: " + (9L << 30) + " bytes exceed", (8L << 30) + " bytes of device memory");
    }

    @Test
    void aDeviceThatDoesNotOpenGivesItsContextBack() throws IOException, InterruptedException {
        assertThat(ended(start(0, Map.of("FAKE_CUDA_FAILS", "cuStreamCreate")), DEVICE_LOST))
                .contains("open cuda:0: CUDA_ERROR_UNKNOWN", "contexts left: 0");
    }
}
