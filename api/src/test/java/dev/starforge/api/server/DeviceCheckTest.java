package dev.starforge.api.server;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Op;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A device that computes is taken, one that does not is found out. */
final class DeviceCheckTest {
    private static Device open(String name) {
        return Selection.choose(name).backend().open(new DeviceOptions(0, 1, Path.of("target")));
    }

    @Test
    void devicesThatComputePass() {
        for (String name : List.of("reference", "cpu")) {
            try (Device device = open(name)) {
                assertThatCode(() -> DeviceCheck.require(device)).doesNotThrowAnyException();
            }
        }
    }

    @Test
    void oneThatReturnsWhatIsThereIsRefused() {
        try (Device device = open("cpu")) {
            Device idle = new ForwardingDevice(device) {
                @Override
                public void run(Op op, Tensor[] in, Tensor[] out) {
                    // nothing
                }
            };
            assertThatThrownBy(() -> DeviceCheck.require(idle))
                    .isInstanceOf(DeviceException.class)
                    .hasMessageContaining("device check: a product of 13x130 and 130x7 on cpu");
        }
    }
}
