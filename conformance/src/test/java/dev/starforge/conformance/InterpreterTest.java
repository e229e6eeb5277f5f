package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.op.Checkpointing;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A trained model's numbers depend neither on what C2 got around to nor on the width of the machine's vectors. */
final class InterpreterTest {
    private static final int WARM_UP = 50;

    @Test
    void interpreterEqualsCompiled() throws IOException, InterruptedException {
        for (int i = 0; i < WARM_UP; i++) {
            trace();
        }
        assertThat(traceOf("-Xint")).isEqualTo(trace());
    }

    @Test
    void narrowVectorsEqualWideOnes() throws IOException, InterruptedException {
        assertThat(traceOf("-XX:MaxVectorSize=16")).isEqualTo(trace());
    }

    /** The trace of another process, started with this option. */
    private static String traceOf(String option) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(List.of(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        option,
                        "--add-modules",
                        "jdk.incubator.vector",
                        "--enable-native-access=ALL-UNNAMED",
                        "-cp",
                        System.getProperty("java.class.path"),
                        InterpreterTest.class.getName()))
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).isZero();
        return output.strip();
    }

    public static void main(String[] args) {
        System.out.println(trace());
    }

    private static String trace() {
        List<Float> starcoder2 = ModelInvariantsTest.trainingTrace("starcoder2", "cpu", 1, Checkpointing.OFF, 1);
        List<Float> llama3 = ModelInvariantsTest.trainingTrace("llama3", "cpu", 1, Checkpointing.OFF, 1);
        return starcoder2 + "\n" + llama3;
    }
}
