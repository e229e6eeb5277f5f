package dev.starforge.train.eval;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Op;
import java.nio.file.Path;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What is timed is right; a device that is wrong in a batch alone, and be it in one of its rows, is found before. */
final class ThroughputTest {
    private static Throughput.Checked check(int batch, int depth, UnaryOperator<Device> decorated) {
        try (ModelFiles files = ModelFiles.random("tiny", "F32");
                Device device = decorated.apply(
                        Selection.choose("cpu").backend().open(new DeviceOptions(0, 1, Path.of("unused"))));
                Scope weights = new Scope(device)) {
            Model model = files.load(weights, Precision.FLOAT32);
            return new Throughput(
                            model, device, Precision.FLOAT32, Fallback.QUIET, 8, 4, depth, batch, System::nanoTime)
                    .check("reference", 1, files, scope -> files.load(scope, Precision.FLOAT32));
        }
    }

    @ParameterizedTest
    @CsvSource({"2, 0", "5, 0", "8, 200"})
    void sequencesOfABatchAreComparedWithEachPromptAlone(int batch, int depth) {
        Throughput.Checked checked = check(batch, depth, device -> device);
        assertThat(checked.difference()).isBetween(0.0, 1e-5);
        assertThat(checked.together().orElseThrow()).isBetween(0.0, 1e-5);
    }

    @Test
    void oneSequenceIsComparedAlone() {
        assertThat(check(1, 0, device -> device).together()).isEmpty();
    }

    /** Five sequences are a step of eight, whose logits are the matmul as wide as the vocabulary. */
    @Test
    void aWrongLogitOfOneRowIsRefused() {
        assertThatThrownBy(() -> check(
                        5,
                        0,
                        device -> after(device, "MatMul", (to, out) -> {
                            if (out.shape().equals(Shape.of(8, 512))) {
                                float[] values = to.floats(out);
                                values[4 * 512 + 7] += 1;
                                to.write(out, values);
                            }
                        })))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("bench: logits of sequence 5 of 5 differ from reference by 0.");
    }

    /** Logits are kept by steps that are not timed; those that are choose tokens. */
    @Test
    void aTokenThatIsNotTheArgmaxIsRejected() {
        assertThatThrownBy(() -> check(
                        4,
                        0,
                        device -> after(device, "Sample", (to, out) -> {
                            int[] values = to.ints(out);
                            values[2] = 511 - values[2];
                            to.write(out, values);
                        })))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("bench: sequence 3 of 4 continues with token ");
    }

    /** As a graph would do that has its inputs baked in. */
    @Test
    void aReplayOfThePreviousStepIsRejected() {
        Map<Object, Integer> runs = new IdentityHashMap<>();
        assertThatThrownBy(() -> check(4, 0, device -> new ForwardingDevice(device) {
                    @Override
                    public void replay(Object key, Runnable step) {
                        if (runs.merge(key, 1, Integer::sum) <= 2) {
                            super.replay(key, step);
                        }
                    }
                }))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("bench: logits of sequence 1 of 4 differ from reference by ");
    }

    private interface Fault {
        void on(Device device, Tensor result);
    }

    /** A device with a fault after each run of an operation, those that others would replay included. */
    private static Device after(Device device, String op, Fault fault) {
        return new ForwardingDevice(device) {
            @Override
            public void replay(Object key, Runnable step) {
                step.run();
            }

            @Override
            public void run(Op run, Tensor[] in, Tensor[] out) {
                super.run(run, in, out);
                if (run.name().equals(op)) {
                    fault.on(device(), out[0]);
                }
            }
        };
    }
}
