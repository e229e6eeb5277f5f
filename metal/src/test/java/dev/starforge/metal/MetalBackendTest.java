package dev.starforge.metal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Plain;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What needs neither a Mac nor the stand-in for Metal. */
class MetalBackendTest {
    private final MetalBackend backend = new MetalBackend();

    private static MetalChip chip(String name, long family, String system) {
        return new MetalChip(name, "applegpu_g13s", family, system, 8L << 30, 5L << 30, 4L << 30, 32 << 10, true);
    }

    @Test
    void offersNoDeviceAndReportsReason() {
        Probe probe = backend.probe();
        if (MetalLibraries.MACOS.areInstalled()) {
            assertTrue(!probe.devices().isEmpty() || !probe.reason().isEmpty());
        } else {
            assertEquals(List.of(), probe.devices());
            assertTrue(probe.reason().startsWith("not macOS"), probe.reason());
        }
    }

    @Test
    void openingThrowsReason(@TempDir Path cache) {
        DeviceException thrown =
                assertThrows(DeviceException.class, () -> backend.open(new DeviceOptions(99, 0, cache)));
        assertTrue(thrown.getMessage().startsWith("metal:99 cannot be opened: "), thrown.getMessage());
    }

    @Test
    void refusesOptionsOfOtherDevices(@TempDir Path cache) {
        assertThrows(DeviceException.class, () -> backend.open(new DeviceOptions(0, 4, cache)));
        assertThrows(DeviceException.class, () -> backend.open(new DeviceOptions(0, 0, cache, Set.of("sm_90"))));
    }

    @Test
    void isUsedOnlyIfNamed() {
        assertTrue(backend.preference() < 0);
    }

    @Test
    void supportsOperationsOfPortableKernels() {
        assertEquals(Support.NATIVE, backend.supports(new Plain.Add(), Spec.f32(2), Spec.f32(2)));
        assertEquals(Support.NATIVE, backend.supports(new Fused.RmsNorm(1e-5f), Spec.f32(2, 3), Spec.f32(3)));
    }

    @Test
    void everyMissingRequirementHasAMessage() {
        assertEquals(
                "Metal is installed, but there is no GPU",
                MetalBackend.judge(List.of()).reason());
        assertEquals(
                "macOS 13.6 is too old: Metal needs macOS 14 or newer",
                MetalBackend.judge(List.of(chip("Apple M1", 1007, "13.6"))).reason());
        assertEquals(
                "Intel Iris is not supported: Metal needs Apple silicon (M1 or newer), not an Intel Mac",
                MetalBackend.judge(List.of(chip("Intel Iris", 0, "14.5"))).reason());
    }

    @Test
    void describesChips() {
        Probe probe = MetalBackend.judge(List.of(chip("Apple M1 Max", 1007, "14.5"), chip("Apple M3", 1009, "15.0")));
        assertEquals(2, probe.devices().size());
        assertEquals(DType.F16, probe.devices().getFirst().computes().getFirst());
        assertEquals(DType.BF16, probe.devices().getLast().computes().getFirst());
        assertTrue(probe.reason().contains("not run on hardware"));
        String detail = probe.devices().getFirst().detail();
        assertTrue(detail.startsWith("applegpu_g13s, Apple7, macOS 14.5, working set 5120 MiB"), detail);
    }

    @Test
    void findsVersionInAnyLanguage() {
        assertEquals("14.5", MetalChip.version("Version 14.5 (Build 23F79)"));
        assertEquals("15.0.1", MetalChip.version("Versión 15.0.1 (compilación 24A348)"));
        assertEquals("0", MetalChip.version("?"));
    }

    @Test
    void coresFollowTheSizeOfTheChip() {
        assertEquals(32, chip("Apple M1 Max", 1007, "14.5").cores());
    }
}
