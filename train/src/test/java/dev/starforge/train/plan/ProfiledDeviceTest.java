package dev.starforge.train.plan;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Plain;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

final class ProfiledDeviceTest {
    /** One that records steps, as a GPU does: the host cannot wait within. */
    private static final class Recording extends ForwardingDevice {
        private boolean recording;

        Recording(Device device) {
            super(device);
        }

        @Override
        public void replay(Object key, Runnable step) {
            recording = true;
            step.run();
            recording = false;
        }

        @Override
        public void synchronize() {
            if (recording) {
                throw new DeviceException("synchronize: inside a recorded step");
            }
            super.synchronize();
        }
    }

    @Test
    void measuresBetweenStartAndStopAndNotWhatIsReplayed() {
        try (Device reference =
                        Selection.choose("reference").backend().open(new DeviceOptions(0, 1, Path.of("unused")));
                ProfiledDevice device = new ProfiledDevice(new Recording(reference), System::nanoTime);
                Scope scope = new Scope(device)) {
            Tensor x = scope.allocate(Spec.f32(4));
            Runnable fill = () -> device.run(new Plain.Fill(x.spec(), 2), new Tensor[0], new Tensor[] {x});
            fill.run();
            assertThat(device.rows()).isEmpty();
            device.start();
            fill.run();
            device.replay("step", fill);
            fill.run();
            device.stop();
            fill.run();
            device.start();
            fill.run();
            assertThat(device.rows())
                    .singleElement()
                    .extracting(StepProfile.Row::calls)
                    .isEqualTo(3L);
        }
    }
}
