package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Plain;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Not a benchmark: tests only that the vector kernels are compiled to vector instructions, and that wrong results are not timed. */
final class SpeedTest {
    private static final int TRIES = 8;

    @Test
    void cpuMultipliesMatricesAtLeastThreeTimesAsFastAsPlainLoops() {
        Case product = Speed.jobs().stream()
                .map(Speed.Job::of)
                .filter(c -> c.toString().equals("MatMul(transposeB) F32[64, 1024] x F32[1024, 1024]"))
                .findFirst()
                .orElseThrow();
        Backend backend = Selection.choose("cpu").backend();
        try (Device cpu = backend.open(new DeviceOptions(0, 1, Path.of("")));
                Device reference = ConformanceMain.reference()) {
            double loops = Speed.seconds(reference, reference, product);
            assertThat(Speed.seconds(cpu, reference, product)).isLessThan(loops / 3);
        }
    }

    /**
     * Detects a collapse of speed, such as vectors that are allocated as objects or a lost fast path. Several tries allow for kernels
     * that are not compiled yet and for a busy machine.
     */
    @ParameterizedTest
    @CsvSource({"F16, 1, 3", "F16, 64, 10", "Q8_0, 1, 3", "Q8_0, 64, 10", "Q4_0, 1, 3", "Q4_0, 64, 10"})
    void quantizedWeightsAreFasterThanPlainLoops(DType type, int tokens, double times) {
        Case product = Speed.product(tokens, 512, 512, type).of();
        Backend backend = Selection.choose("cpu").backend();
        try (Device cpu = backend.open(new DeviceOptions(0, 1, Path.of("")));
                Device reference = ConformanceMain.reference()) {
            double loops = Speed.seconds(reference, reference, product);
            double best = 0;
            for (int i = 0; i < TRIES && best <= times; i++) {
                best = Math.max(best, loops / Speed.seconds(cpu, reference, product));
            }
            assertThat(best).as("times as fast as the reference").isGreaterThan(times);
        }
    }

    @Test
    void wrongResultIsNotTimed() throws IOException {
        FaultyDevice broken = new FaultyDevice((device, op, in, out) -> {
            device.run(op, in, out);
            if (op instanceof Plain.MatMul) {
                device.write(out[0].view(0, Shape.of(1)), 1000f);
            }
        });
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        List<Speed.Job> one = List.of(Speed.jobs().getFirst());
        assertThat(Speed.run(broken, one, new PrintStream(bytes, true))).isFalse();
        assertThat(bytes.toString()).contains("not timed MatMul").doesNotContain(" ms ");
    }
}
