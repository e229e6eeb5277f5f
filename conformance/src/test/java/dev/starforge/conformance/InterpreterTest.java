package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Interpreted and compiled code give the same bits: a trained model's numbers do not depend on what C2 got around to. */
final class InterpreterTest {
    private static final int WARM_UP = 50;

    @Test
    void interpreterEqualsCompiled() throws IOException, InterruptedException {
        for (int i = 0; i < WARM_UP; i++) {
            trace();
        }
        assertThat(trace()).isEqualTo(interpreted());
    }

    private static String interpreted() throws IOException, InterruptedException {
        Process process = new ProcessBuilder(List.of(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xint",
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
        List<Float> starcoder2 = ModelInvariantsTest.trainingTrace("starcoder2", "cpu", 1, false, 1);
        List<Float> llama3 = ModelInvariantsTest.trainingTrace("llama3", "cpu", 1, false, 1);
        return Integer.toHexString(starcoder2.hashCode()) + Integer.toHexString(llama3.hashCode());
    }
}
