package dev.starforge.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starforge.kernels.Launch;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What holds with and without a GPU; that kernels compute the right thing is for the conformance suite. */
class CudaBackendTest {
    private final CudaBackend backend = new CudaBackend();

    @Test
    void probeGivesAReasonAndNumbersItsDevices() {
        Probe probe = backend.probe();
        assertFalse(probe.reason().isBlank());
        for (int i = 0; i < probe.found().size(); i++) {
            Probe.Found found = probe.found().get(i);
            assertEquals(i, found.index());
            assertTrue(found.memoryBytes() > 0, found.toString());
            assertTrue(found.detail().startsWith("compute capability "), found.detail());
        }
    }

    @Test
    void openingADeviceThatIsNotThereSaysWhy(@TempDir Path cache) {
        DeviceException thrown =
                assertThrows(DeviceException.class, () -> backend.open(new DeviceOptions(99, 0, cache)));
        assertTrue(thrown.getMessage().startsWith("cuda:99 cannot be opened: "), thrown.getMessage());
    }

    @Test
    void thePreludeHasGroupsAsTheyAreLaunched() {
        assertTrue(Kernels.prelude().contains("#define GROUP " + Launch.GROUP + "\n"));
    }

    @Test
    void aMissingLibraryIsAReasonAndItsFunctionsThrowIt() {
        Library library = Library.open("it is not here", List.of("libstarforge-not-there.so.1"));
        assertEquals(new Library.Missing("it is not here"), library);
        MethodHandle handle = library.handle(
                "anything", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.ADDRESS));
        DeviceException thrown =
                assertThrows(DeviceException.class, () -> handle.invokeWithArguments(1L, MemorySegment.NULL));
        assertEquals("it is not here", thrown.getMessage());
    }
}
