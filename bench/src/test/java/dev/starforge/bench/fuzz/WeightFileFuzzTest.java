package dev.starforge.bench.fuzz;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

/** Reading 10,000 mutated files of each kind in a small heap succeeds or ends in a typed error. */
final class WeightFileFuzzTest {
    @Test
    void mutatedWeightFilesAreReadOrRefusedWithATypedError() throws IOException, InterruptedException {
        assertThat(run(WeightFileFuzz.class)).contains("fuzz.gguf: 10000 cases", "fuzz.safetensors: 10000 cases");
    }

    @Test
    void mutatedConfigsAreReadOrRefusedWithATypedError() throws IOException, InterruptedException {
        assertThat(run(ConfigFuzz.class)).contains("config.json: 10000 cases").doesNotContain(" 0 loaded");
    }

    private static String run(Class<?> main) throws IOException, InterruptedException {
        Process process = FuzzCommand.command(main, "24m", 10_000, 1)
                .redirectErrorStream(true)
                .start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as(output).isZero();
        return output;
    }
}
