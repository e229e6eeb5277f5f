package dev.starforge.bench.fuzz;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** Runs the fuzzers of file readers, each in a JVM with a small heap. */
@Command(
        name = "fuzz",
        mixinStandardHelpOptions = true,
        description = {
            "Reads mutated GGUF, safetensors, config.json and tokenizer.json files in a small heap.",
            "Every file must be read or be refused with a typed error. The tests read 10,000 files of each kind."
        })
public final class FuzzCommand implements Callable<Integer> {
    /** A fuzzer and its heap. */
    private record Fuzzer(Class<?> main, String heap) {}

    private static final List<Fuzzer> FUZZERS = List.of(
            new Fuzzer(WeightFileFuzz.class, "24m"),
            new Fuzzer(ConfigFuzz.class, "24m"),
            new Fuzzer(TokenizerFuzz.class, "256m"));

    @Parameters(
            index = "0",
            paramLabel = "CASES",
            arity = "0..1",
            defaultValue = "100000",
            description = "Mutated files of each kind (default: ${DEFAULT-VALUE}).")
    int cases;

    @Parameters(
            index = "1",
            paramLabel = "SEED",
            arity = "0..1",
            defaultValue = "1",
            description = "Seed of the mutations (default: ${DEFAULT-VALUE}).")
    long seed;

    @Override
    public Integer call() throws IOException, InterruptedException {
        for (Fuzzer fuzzer : FUZZERS) {
            int exitCode = command(fuzzer.main(), fuzzer.heap(), cases, seed)
                    .inheritIO()
                    .start()
                    .waitFor();
            if (exitCode != 0) {
                return exitCode;
            }
        }
        return 0;
    }

    /** The command that runs a fuzzer in a JVM of its own. */
    static ProcessBuilder command(Class<?> main, String heap, int cases, long seed) {
        return new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx" + heap,
                "-XX:+UseSerialGC",
                "--add-modules",
                "jdk.incubator.vector",
                "-cp",
                System.getProperty("java.class.path"),
                main.getName(),
                Integer.toString(cases),
                Long.toString(seed));
    }
}
