package dev.starforge.conformance;

import dev.starforge.conformance.emulator.EmulatedBackend;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import java.nio.file.Path;

/**
 * The GPU kernels without a GPU: their own text, run by the host emulator, which also looks for faults that give no wrong
 * number. The twin runs groups and threads in the reversed order.
 */
final class EmulatedConformanceTest extends BackendConformanceTest {
    EmulatedConformanceTest() {
        super("emulator");
    }

    @Override
    Backend backend() {
        return new EmulatedBackend();
    }

    @Override
    Device twin(Backend backend, Path kernelCache) {
        return backend.open(new DeviceOptions(1, 0, kernelCache));
    }
}
