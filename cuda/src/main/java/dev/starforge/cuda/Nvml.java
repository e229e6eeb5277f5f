package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.Usage;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.invoke.MethodHandle;
import java.util.List;
import java.util.OptionalLong;

/**
 * Bindings of NVML, the library behind nvidia-smi, with the function names of its header, and {@link #usage}. NVML comes with the
 * driver. If it is missing or fails, utilization is unknown and everything else works.
 */
final class Nvml {
    private static final int SUCCESS = 0;

    /** nvmlUtilization_t, in percent of the last sample period. */
    private static final StructLayout UTILIZATION =
            MemoryLayout.structLayout(JAVA_INT.withName("gpu"), JAVA_INT.withName("memory"));

    private static final long UTILIZATION_GPU = UTILIZATION.byteOffset(PathElement.groupElement("gpu"));

    /** nvmlMemory_t, in bytes. */
    private static final StructLayout MEMORY = MemoryLayout.structLayout(
            JAVA_LONG.withName("total"), JAVA_LONG.withName("free"), JAVA_LONG.withName("used"));

    private static final long MEMORY_USED = MEMORY.byteOffset(PathElement.groupElement("used"));

    private static final NativeLibrary LIBRARY = NativeLibrary.open(
            "NVML was not found: neither libnvidia-ml.so.1 nor nvml.dll", List.of("libnvidia-ml.so.1", "nvml.dll"));

    private static final MethodHandle nvmlInit_v2 = LIBRARY.handle("nvmlInit_v2", FunctionDescriptor.of(JAVA_INT));
    private static final MethodHandle nvmlErrorString =
            LIBRARY.handle("nvmlErrorString", FunctionDescriptor.of(ADDRESS, JAVA_INT));
    private static final MethodHandle nvmlDeviceGetHandleByPciBusId_v2 =
            LIBRARY.handle("nvmlDeviceGetHandleByPciBusId_v2", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
    private static final MethodHandle nvmlDeviceGetUtilizationRates =
            LIBRARY.handle("nvmlDeviceGetUtilizationRates", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS));
    private static final MethodHandle nvmlDeviceGetMemoryInfo =
            LIBRARY.handle("nvmlDeviceGetMemoryInfo", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS));

    private Nvml() {}

    /** Returns why NVML is not available, or an empty string. NVML counts initializations; repeating them is cheap. */
    static String trouble() {
        try {
            check(nvmlInit_v2(), "NVML does not start");
            return "";
        } catch (DeviceException failure) {
            return String.valueOf(failure.getMessage());
        }
    }

    /**
     * NVML's handle of the GPU with this PCI bus id, which does not depend on CUDA_VISIBLE_DEVICES; empty if NVML does not know the
     * GPU. Queries its usage once, so that a missing function is detected here.
     */
    static OptionalLong device(String busId) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment device = arena.allocate(JAVA_LONG);
            check(nvmlInit_v2(), "NVML does not start");
            check(nvmlDeviceGetHandleByPciBusId_v2(arena.allocateFrom(busId), device), "NVML: GPU " + busId);
            usage(device.get(JAVA_LONG, 0));
            return OptionalLong.of(device.get(JAVA_LONG, 0));
        } catch (DeviceException unknown) {
            return OptionalLong.empty();
        }
    }

    /** Current utilization and used memory, -1 if unknown: with MIG there is no utilization, and memory is that of the whole GPU. */
    static Usage usage(long device) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment rates = arena.allocate(UTILIZATION);
            MemorySegment memory = arena.allocate(MEMORY);
            boolean rated = nvmlDeviceGetUtilizationRates(device, rates) == SUCCESS;
            boolean measured = nvmlDeviceGetMemoryInfo(device, memory) == SUCCESS;
            return new Usage(
                    rated ? rates.get(JAVA_INT, UTILIZATION_GPU) / 100.0 : -1,
                    measured ? memory.get(JAVA_LONG, MEMORY_USED) : -1);
        }
    }

    /** Throws an exception with the operation and NVML's text for a failed status. */
    @SuppressWarnings("restricted") // the string belongs to the library; its length is unknown
    private static void check(int status, String operation) {
        if (status != SUCCESS) {
            throw new DeviceException(operation + ": "
                    + nvmlErrorString(status).reinterpret(Long.MAX_VALUE).getString(0));
        }
    }

    // nvmlReturn_t nvmlInit_v2(void);
    private static int nvmlInit_v2() {
        try {
            return (int) nvmlInit_v2.invokeExact();
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // const char *nvmlErrorString(nvmlReturn_t result);
    private static MemorySegment nvmlErrorString(int result) {
        try {
            return (MemorySegment) nvmlErrorString.invokeExact(result);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device);
    private static int nvmlDeviceGetHandleByPciBusId_v2(MemorySegment pciBusId, MemorySegment device) {
        try {
            return (int) nvmlDeviceGetHandleByPciBusId_v2.invokeExact(pciBusId, device);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization);
    private static int nvmlDeviceGetUtilizationRates(long device, MemorySegment utilization) {
        try {
            return (int) nvmlDeviceGetUtilizationRates.invokeExact(device, utilization);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
    private static int nvmlDeviceGetMemoryInfo(long device, MemorySegment memory) {
        try {
            return (int) nvmlDeviceGetMemoryInfo.invokeExact(device, memory);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }
}
