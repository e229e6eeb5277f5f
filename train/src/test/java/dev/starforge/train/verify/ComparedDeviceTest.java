package dev.starforge.train.verify;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Op;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** A wrong operation is found, and named. */
final class ComparedDeviceTest {
    private static Device reference() {
        return Selection.choose("reference").backend().open(new DeviceOptions(0, 1, Path.of("unused")));
    }

    private static Map<String, Double> errors(Device device) {
        ComparedDevice compared = new ComparedDevice(device, reference());
        new GoldenFolder(Path.of("..", "golden"), compared, Precision.FLOAT32, Fallback.QUIET)
                .model("starcoder2", GoldenTolerances.of(device, Precision.FLOAT32), 0, Optional.empty());
        return compared.errors();
    }

    @Test
    void oneWrongElementOfOneOperationIsFound() {
        Device broken = new ForwardingDevice(reference()) {
            @Override
            public void run(Op op, Tensor[] in, Tensor[] out) {
                super.run(op, in, out);
                if (op.name().equals("LayerNorm")) {
                    float[] values = floats(out[0]);
                    values[values.length - 1] += 1;
                    write(out[0], values);
                }
            }
        };
        Map<String, Double> errors = errors(broken);
        assertThat(errors).hasSizeGreaterThan(15);
        assertThat(errors.get("LayerNorm")).isGreaterThan(0.01);
        assertThat(errors.entrySet().stream().filter(each -> each.getValue() > 0))
                .hasSize(1);
    }
}
