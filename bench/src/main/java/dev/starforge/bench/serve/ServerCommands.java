package dev.starforge.bench.serve;

import dev.starforge.bench.process.Programs;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** The commands that load, soak or fuzz a worker or a pool. */
public final class ServerCommands {
    private static final Path MODEL = Programs.ROOT.resolve(Path.of("golden", "gguf", "micro-Q8_0.gguf"));

    private ServerCommands() {}

    @Command(
            name = "load",
            mixinStandardHelpOptions = true,
            description = {
                "Loads a running server that has OpenAI's API with concurrent streams, and prints one line of JSON.",
                "",
                "After a warm-up it measures throughput, time to the first token, the longest gap between two tokens,"
                        + " and the latency of /health meanwhile. Then a long prompt joins as many streams, and is sent"
                        + " twice more: the second time its prefix is cached.",
                "With nvidia-smi it also reports the utilization of the first GPU while all streams run: gpu_busy_mean"
                        + " in percent, and gpu_busy_share_85, the share of samples of 85 percent or more. The first"
                        + " second does not count, so TOKENS must be enough for several seconds.",
                "",
                "STARFORGE_IMAGE=FOLDER runs it with the Java of an unpacked image (scripts/image), where there is no"
                        + " JDK. It then needs only bench/target/quick of a machine that has built it."
            })
    public static final class Load implements Callable<Integer> {
        @Parameters(index = "0", paramLabel = "URL", description = "Address of the server.")
        URI url;

        @Parameters(
                index = "1",
                paramLabel = "STREAMS",
                arity = "0..1",
                defaultValue = "8",
                description = "Concurrent streams (default: ${DEFAULT-VALUE}).")
        int streams;

        @Parameters(
                index = "2",
                paramLabel = "TOKENS",
                arity = "0..1",
                defaultValue = "64",
                description = "Tokens of each stream (default: ${DEFAULT-VALUE}).")
        int tokens;

        @Parameters(
                index = "3",
                paramLabel = "PROMPT",
                arity = "0..1",
                defaultValue = "1000",
                description = "Tokens of the long prompt (default: ${DEFAULT-VALUE}).")
        int prompt;

        @Override
        public Integer call() throws Exception {
            try (GpuMeter meter = GpuMeter.start(GpuMeter.NVIDIA_SMI, GpuMeter.SAMPLING_INTERVAL)) {
                System.out.println(new ServerLoad(URI.create(url + "/"), streams, tokens, prompt, meter).run());
            }
            return 0;
        }
    }

    @Command(
            name = "soak",
            mixinStandardHelpOptions = true,
            description = {
                "Runs `starforge serve` with 50 clients that complete, stream, embed, disconnect, cancel and send"
                        + " invalid requests.",
                "",
                "Every answer must equal the answer of the idle server, and KV blocks, threads, file descriptors and"
                        + " heap must be released at the end. Then the server drains while a request runs, is killed with"
                        + " SIGKILL, and starts again on the same port."
            })
    public static final class Soak implements Callable<Integer> {
        @Parameters(
                index = "0",
                paramLabel = "SECONDS",
                arity = "0..1",
                defaultValue = "60",
                description = "Duration (default: ${DEFAULT-VALUE}).")
        int seconds;

        @Parameters(
                index = "1",
                paramLabel = "SEED",
                arity = "0..1",
                defaultValue = "1",
                description = "Seed of the requests (default: ${DEFAULT-VALUE}).")
        long seed;

        @Parameters(
                index = "2",
                paramLabel = "MODEL",
                arity = "0..1",
                description = "Model to serve (default: a tiny model of the tests).")
        Path model = MODEL;

        @Parameters(
                index = "3",
                paramLabel = "DEVICE",
                arity = "0..1",
                defaultValue = "cpu",
                description = "Device (default: ${DEFAULT-VALUE}).")
        String device;

        @Override
        public Integer call() throws Exception {
            Programs.starforge("--version"); // builds it
            ServerSoak.run(
                    Duration.ofSeconds(seconds),
                    seed,
                    List.of(Programs.STARFORGE, "serve", model.toString(), "--device", device));
            return 0;
        }
    }

    @Command(
            name = "request-fuzz",
            mixinStandardHelpOptions = true,
            description = {
                "Sends mutated HTTP requests to a worker with a fake engine.",
                "Each must be answered with an expected status, or its connection must end. The tests send 2,000."
            })
    public static final class Fuzz implements Callable<Integer> {
        @Parameters(
                index = "0",
                paramLabel = "CASES",
                arity = "0..1",
                defaultValue = "100000",
                description = "Requests (default: ${DEFAULT-VALUE}).")
        int cases;

        @Parameters(
                index = "1",
                paramLabel = "SEED",
                arity = "0..1",
                defaultValue = "1",
                description = "Seed of the mutations (default: ${DEFAULT-VALUE}).")
        long seed;

        @Override
        public Integer call() throws Exception {
            long begin = System.nanoTime();
            Map<String, Integer> outcomes = RequestFuzz.run(cases, seed);
            System.out.printf(
                    "%d requests from seed %d in %.0f s: %s%n",
                    cases, seed, (System.nanoTime() - begin) / 1e9, outcomes);
            return 0;
        }
    }

    @Command(
            name = "pool-soak",
            mixinStandardHelpOptions = true,
            description = {
                "Runs streaming clients of a pool with two workers that have a fake engine, at 20 ms per token.",
                "",
                "A worker is killed every 20 seconds, and at the end the pool itself. Every request must end complete"
                        + " or with the one error that asks to retry, and descriptors, threads, memory and processes must"
                        + " be released. Prints the time that the pool adds to the first token."
            })
    public static final class SoakPool implements Callable<Integer> {
        @Parameters(
                index = "0",
                paramLabel = "SECONDS",
                arity = "0..1",
                defaultValue = "60",
                description = "Duration (default: ${DEFAULT-VALUE}).")
        int seconds;

        @Parameters(
                index = "1",
                paramLabel = "CLIENTS",
                arity = "0..1",
                defaultValue = "200",
                description = "Concurrent clients (default: ${DEFAULT-VALUE}).")
        int clients;

        @Parameters(
                index = "2",
                paramLabel = "SEED",
                arity = "0..1",
                defaultValue = "1",
                description = "Chooses the workers that are killed (default: ${DEFAULT-VALUE}).")
        long seed;

        @Override
        public Integer call() throws Exception {
            PoolSoak.run(seconds, clients, seed);
            return 0;
        }
    }

    @Command(
            name = "pool-hits",
            mixinStandardHelpOptions = true,
            description = {
                "Measures the prefix cache hits of three real workers with prefix routing and with random routing.",
                "Fails unless prefix routing finds at least ten percentage points more."
            })
    public static final class PoolHits implements Callable<Integer> {
        @Parameters(
                paramLabel = "MODEL.gguf",
                arity = "0..1",
                description = "Model to serve (default: a tiny model of the tests).")
        Path model = MODEL;

        @Override
        public Integer call() throws Exception {
            Programs.starforge("--version"); // builds it
            PrefixHitRate.measure(Programs.STARFORGE, model);
            return 0;
        }
    }

    @Command(
            name = "fake-worker",
            mixinStandardHelpOptions = true,
            description = {
                "Runs a worker with a fake engine for clients that are not written in Java, until its input ends.",
                "Prints its address first, and the number of requests last."
            })
    public static final class Fake implements Callable<Integer> {
        @Parameters(paramLabel = "KEY", arity = "0..1", description = "API key that requests must send.")
        String key;

        @Override
        public Integer call() throws Exception {
            FakeWorker.run(key == null ? List.of() : List.of(key));
            return 0;
        }
    }
}
