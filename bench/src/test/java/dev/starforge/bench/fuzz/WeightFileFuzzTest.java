package dev.starforge.bench.fuzz;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** Ten thousand mutants of each kind of file end in success or a typed error, in a process with next to no heap. */
final class WeightFileFuzzTest {
    @Test
    void mutantsOfWeightFilesEndInSuccessOrATypedError() throws IOException, InterruptedException {
        assertThat(run(WeightFileFuzz.class)).contains("fuzz.gguf: 10000 cases", "fuzz.safetensors: 10000 cases");
    }

    @Test
    void mutantsOfAConfigEndInSuccessOrATypedError() throws IOException, InterruptedException {
        assertThat(run(ConfigFuzz.class)).contains("config.json: 10000 cases").doesNotContain(" 0 loaded");
    }

    private static String run(Class<?> main) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xmx24m",
                        "-XX:+UseSerialGC",
                        "--add-modules",
                        "jdk.incubator.vector",
                        "-cp",
                        System.getProperty("java.class.path"),
                        main.getName(),
                        "10000",
                        "1")
                .redirectErrorStream(true)
                .start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as(output).isZero();
        return output;
    }
}
