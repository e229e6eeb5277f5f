package dev.starforge.metal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Plain;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MetalBackendTest {
    private final MetalBackend backend = new MetalBackend();

    @Test
    void offersNoDeviceAndReportsReason() {
        Probe probe = backend.probe();
        assertEquals(List.of(), probe.devices());
        assertTrue(
                probe.reason().startsWith("not macOS") || probe.reason().contains("no Metal kernels yet"),
                probe.reason());
    }

    @Test
    void openingThrowsReason(@TempDir Path cache) {
        DeviceException thrown =
                assertThrows(DeviceException.class, () -> backend.open(new DeviceOptions(0, 0, cache)));
        assertTrue(thrown.getMessage().endsWith(backend.probe().reason()), thrown.getMessage());
    }

    @Test
    void supportsOperationsOfPortableKernels() {
        assertEquals(Support.NATIVE, backend.supports(new Plain.Add(), Spec.f32(2), Spec.f32(2)));
        assertEquals(Support.NATIVE, backend.supports(new Fused.RmsNorm(1e-5f), Spec.f32(2, 3), Spec.f32(3)));
    }
}
