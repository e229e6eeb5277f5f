package dev.starforge.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starforge.kernels.Launch;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import java.io.IOException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What holds with and without a GPU; that kernels compute the right thing is for the conformance suite. */
class CudaBackendTest {
    private final CudaBackend backend = new CudaBackend();

    @Test
    void probeReportsReasonAndNumbersDevices() {
        Probe probe = backend.probe();
        assertFalse(probe.reason().isBlank());
        for (int i = 0; i < probe.devices().size(); i++) {
            Probe.DetectedDevice found = probe.devices().get(i);
            assertEquals(i, found.index());
            assertTrue(found.memoryBytes() > 0, found.toString());
            assertTrue(found.detail().startsWith("compute capability "), found.detail());
        }
    }

    @Test
    void openingMissingDeviceReportsReason(@TempDir Path cache) {
        DeviceException thrown =
                assertThrows(DeviceException.class, () -> backend.open(new DeviceOptions(99, 0, cache)));
        assertTrue(thrown.getMessage().startsWith("cuda:99 cannot be opened: "), thrown.getMessage());
    }

    @Test
    void rejectsUnknownHiddenFeatures(@TempDir Path cache) {
        DeviceOptions options = new DeviceOptions(0, 0, cache, Set.of("sm_70"));
        DeviceException thrown = assertThrows(DeviceException.class, () -> backend.open(options));
        assertTrue(thrown.getMessage().startsWith("cuda: cannot hide [sm_70]; expected some of "), thrown.getMessage());
    }

    @Test
    void everyMissingRequirementHasAMessage() {
        NativeLibrary found = new NativeLibrary.Found("it", name -> Optional.empty());
        NativeLibrary missing = new NativeLibrary.Missing("it was not found");
        List<Probe.DetectedDevice> gpus = List.of(CudaBackend.declare(0, "H200", 1L << 37, false, 9, 0, 12_040));
        assertEquals("it does not start", reason("it does not start", 12_040, gpus, found, found, "12.4"));
        assertEquals("an NVIDIA driver was found, but no GPU", reason("", 12_040, List.of(), found, found, "12.4"));
        assertEquals(
                "H200 is there, but its driver is for CUDA 11.8, which is too old: install one for CUDA 12.0 (525) or"
                        + " newer",
                reason("", 11_080, gpus, found, found, "12.4"));
        assertEquals("H200 is there, but it was not found", reason("", 12_040, gpus, missing, found, "12.4"));
        assertEquals(
                "H200 is there, but NVRTC 13.0 is newer than its driver, which is for CUDA 12.4: install a newer"
                        + " driver, or NVRTC 12",
                reason("", 12_040, gpus, found, found, "13.0"));
        assertEquals(
                "H200; dense products by our own kernel, since it was not found",
                reason("", 12_040, gpus, found, missing, "12.4"));
        assertEquals("H200", reason("", 13_000, gpus, found, found, "12.4"));
        assertEquals(
                "H200; utilization is unknown: it was not found",
                new CudaBackend.Installation("", 13_000, gpus, found, found, "it was not found")
                        .judge(() -> "12.4")
                        .reason());
    }

    private static String reason(
            String trouble,
            int driver,
            List<Probe.DetectedDevice> gpus,
            NativeLibrary nvrtc,
            NativeLibrary cublasLt,
            String compiler) {
        Probe probe = new CudaBackend.Installation(trouble, driver, gpus, nvrtc, cublasLt, "").judge(() -> compiler);
        assertEquals(
                probe.reason().startsWith("H200") && !probe.reason().contains(" is there, but "),
                !probe.devices().isEmpty());
        return probe.reason();
    }

    @Test
    void loadsFirstLibraryInOrder() {
        List<String> asked = new ArrayList<>();
        NativeLibrary library = NativeLibrary.open("none", List.of("a.so", "b.so", "c.so"), name -> {
            asked.add(name);
            if (name.equals("a.so")) {
                throw new IllegalArgumentException(name);
            }
            return symbol -> Optional.empty();
        });
        assertEquals(List.of("a.so", "b.so"), asked);
        assertEquals("b.so", ((NativeLibrary.Found) library).name());
        assertEquals(new NativeLibrary.Missing("none"), NativeLibrary.open("none", List.of("a.so"), name -> {
            throw new IllegalArgumentException(name);
        }));
    }

    @Test
    void searchesLoaderThenToolkitsThenPythonPackages(@TempDir Path root) throws IOException {
        for (String folder : List.of(
                "usr/local/cuda/lib64",
                "usr/local/lib/python3.12/dist-packages/nvidia/cu13/lib",
                "opt/torch/.venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib",
                "opt/torch/.venv/lib/python3.12/site-packages/other/lib")) {
            Files.createDirectories(root.resolve(folder));
        }
        assertEquals(
                List.of(
                        "libnvrtc.so.13",
                        root + "/usr/local/cuda/lib64/libnvrtc.so.13",
                        root + "/usr/local/lib/python3.12/dist-packages/nvidia/cu13/lib/libnvrtc.so.13",
                        root + "/opt/torch/.venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.13"),
                NativeLibrary.searchPaths(root, "libnvrtc.so.13"));
    }

    @Test
    void preludeGroupSizeMatchesLaunch() {
        assertTrue(KernelModules.prelude().contains("#define GROUP " + Launch.GROUP + "\n"));
    }

    @Test
    void functionsOfMissingLibraryThrowReason() {
        NativeLibrary library = NativeLibrary.open("it is not here", List.of("libstarforge-not-there.so.1"));
        assertEquals(new NativeLibrary.Missing("it is not here"), library);
        MethodHandle handle = library.handle(
                "anything", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.ADDRESS));
        DeviceException thrown =
                assertThrows(DeviceException.class, () -> handle.invokeWithArguments(1L, MemorySegment.NULL));
        assertEquals("it is not here", thrown.getMessage());
    }
}
