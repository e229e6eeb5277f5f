package dev.starforge.conformance;

import dev.starforge.conformance.emulator.EmulatedBackend;
import dev.starforge.kernels.Variant;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Support;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;

/**
 * The GPU kernels without a GPU: their own text, run by the host emulator, which also looks for faults that give no wrong
 * number. The twin runs groups and threads in the reversed order.
 */
class EmulatedConformanceTest extends BackendConformanceTest {
    EmulatedConformanceTest() {
        super("emulator");
    }

    /** Whether the chip has warpgroups. */
    boolean warpgroups() {
        return false;
    }

    @Override
    Backend backend() {
        EmulatedBackend backend = new EmulatedBackend(warpgroups());
        Set<Variant> needed = new HashSet<>();
        for (Case c : selectedCases()) {
            if (backend.supports(c.op(), c.specs()) == Support.NATIVE) {
                backend.variants(c.op(), c.specs(), needed);
            }
        }
        backend.compile(needed);
        return backend;
    }

    @Override
    Device twin(Backend backend, Path kernelCache) {
        return backend.open(new DeviceOptions(1, 0, kernelCache));
    }
}
