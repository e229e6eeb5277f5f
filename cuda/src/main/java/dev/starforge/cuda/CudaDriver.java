package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.MemoryException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.List;

/**
 * Bindings of the CUDA driver, with the function names of its header. Handles (contexts, modules, streams, graphs, device pointers)
 * are longs; host memory is a segment.
 */
final class CudaDriver {
    static final int SUCCESS = 0;
    static final int OUT_OF_MEMORY = 2;
    static final int NO_DEVICE = 100;
    static final int ATTRIBUTE_MULTIPROCESSOR_COUNT = 16;
    static final int ATTRIBUTE_INTEGRATED = 18;
    static final int ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75;
    static final int ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76;
    static final int STREAM_NON_BLOCKING = 1;
    static final int MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
    static final int CAPTURE_THREAD_LOCAL = 1;

    static final NativeLibrary LIBRARY = NativeLibrary.open(
            "no NVIDIA driver: neither libcuda.so.1 nor nvcuda.dll was found", List.of("libcuda.so.1", "nvcuda.dll"));

    private static final MethodHandle cuInit = LIBRARY.handle("cuInit", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
    private static final MethodHandle cuDriverGetVersion =
            LIBRARY.handle("cuDriverGetVersion", FunctionDescriptor.of(JAVA_INT, ADDRESS));
    private static final MethodHandle cuDeviceGetCount =
            LIBRARY.handle("cuDeviceGetCount", FunctionDescriptor.of(JAVA_INT, ADDRESS));
    private static final MethodHandle cuDeviceGet =
            LIBRARY.handle("cuDeviceGet", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT));
    private static final MethodHandle cuDeviceGetName =
            LIBRARY.handle("cuDeviceGetName", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT));
    private static final MethodHandle cuDeviceGetPCIBusId =
            LIBRARY.handle("cuDeviceGetPCIBusId", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT));
    private static final MethodHandle cuDeviceGetAttribute =
            LIBRARY.handle("cuDeviceGetAttribute", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT));
    private static final MethodHandle cuDeviceTotalMem_v2 =
            LIBRARY.handle("cuDeviceTotalMem_v2", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT));
    private static final MethodHandle cuDevicePrimaryCtxRetain =
            LIBRARY.handle("cuDevicePrimaryCtxRetain", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT));
    private static final MethodHandle cuDevicePrimaryCtxRelease_v2 =
            LIBRARY.handle("cuDevicePrimaryCtxRelease_v2", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
    private static final MethodHandle cuCtxSetCurrent =
            LIBRARY.handle("cuCtxSetCurrent", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle cuMemAlloc_v2 =
            LIBRARY.handle("cuMemAlloc_v2", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG));
    private static final MethodHandle cuMemFree_v2 =
            LIBRARY.handle("cuMemFree_v2", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle cuMemGetInfo_v2 =
            LIBRARY.handle("cuMemGetInfo_v2", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
    private static final MethodHandle cuMemHostAlloc =
            LIBRARY.handle("cuMemHostAlloc", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT));
    private static final MethodHandle cuMemFreeHost =
            LIBRARY.handle("cuMemFreeHost", FunctionDescriptor.of(JAVA_INT, ADDRESS));
    private static final MethodHandle cuMemcpyHtoDAsync_v2 = LIBRARY.handle(
            "cuMemcpyHtoDAsync_v2", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle cuMemcpyDtoHAsync_v2 = LIBRARY.handle(
            "cuMemcpyDtoHAsync_v2", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle cuMemcpyDtoDAsync_v2 = LIBRARY.handle(
            "cuMemcpyDtoDAsync_v2", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle cuMemsetD8Async = LIBRARY.handle(
            "cuMemsetD8Async", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_BYTE, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle cuModuleLoadData =
            LIBRARY.handle("cuModuleLoadData", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
    private static final MethodHandle cuModuleUnload =
            LIBRARY.handle("cuModuleUnload", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle cuModuleGetFunction =
            LIBRARY.handle("cuModuleGetFunction", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS));
    private static final MethodHandle cuFuncSetAttribute =
            LIBRARY.handle("cuFuncSetAttribute", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_INT));
    private static final MethodHandle cuLaunchKernel = LIBRARY.handle(
            "cuLaunchKernel",
            FunctionDescriptor.of(
                    JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT,
                    JAVA_LONG, ADDRESS, ADDRESS));
    private static final MethodHandle cuLaunchKernelEx =
            LIBRARY.handle("cuLaunchKernelEx", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    private static final MethodHandle cuStreamCreate =
            LIBRARY.handle("cuStreamCreate", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT));
    private static final MethodHandle cuStreamDestroy_v2 =
            LIBRARY.handle("cuStreamDestroy_v2", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle cuStreamSynchronize =
            LIBRARY.handle("cuStreamSynchronize", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle cuStreamBeginCapture_v2 =
            LIBRARY.handle("cuStreamBeginCapture_v2", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT));
    private static final MethodHandle cuStreamEndCapture =
            LIBRARY.handle("cuStreamEndCapture", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS));
    private static final MethodHandle cuGraphInstantiateWithFlags = LIBRARY.handle(
            "cuGraphInstantiateWithFlags", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle cuGraphLaunch =
            LIBRARY.handle("cuGraphLaunch", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle cuGraphExecDestroy =
            LIBRARY.handle("cuGraphExecDestroy", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle cuGraphDestroy =
            LIBRARY.handle("cuGraphDestroy", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle cuGetErrorName =
            LIBRARY.handle("cuGetErrorName", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS));
    private static final MethodHandle cuGetErrorString =
            LIBRARY.handle("cuGetErrorString", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS));

    private CudaDriver() {}

    /** Throws an exception with the operation and the status. Any call may run out of memory: kernels and graphs need some, too. */
    static void check(int status, String operation) {
        if (status == OUT_OF_MEMORY) {
            throw new MemoryException(
                    operation + ": " + describe(status) + "; end what else uses the GPU, or ask for less");
        }
        if (status != SUCCESS) {
            throw new DeviceException(operation + ": " + describe(status));
        }
    }

    /** The driver's name and text of a status. */
    @SuppressWarnings("restricted") // the strings belong to the driver; their length is unknown
    static String describe(int status) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment name = arena.allocate(ADDRESS);
            MemorySegment text = arena.allocate(ADDRESS);
            if (cuGetErrorName(status, name) != SUCCESS || cuGetErrorString(status, text) != SUCCESS) {
                return "CUDA status " + status;
            }
            return name.get(ADDRESS, 0).reinterpret(Long.MAX_VALUE).getString(0) + " ("
                    + text.get(ADDRESS, 0).reinterpret(Long.MAX_VALUE).getString(0) + ")";
        }
    }

    // CUresult cuInit(unsigned int flags);
    static int cuInit(int flags) {
        try {
            return (int) cuInit.invokeExact(flags);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuDriverGetVersion(int *version);
    static int cuDriverGetVersion(MemorySegment version) {
        try {
            return (int) cuDriverGetVersion.invokeExact(version);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuDeviceGetCount(int *count);
    static int cuDeviceGetCount(MemorySegment count) {
        try {
            return (int) cuDeviceGetCount.invokeExact(count);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuDeviceGet(CUdevice *device, int ordinal);
    static int cuDeviceGet(MemorySegment device, int ordinal) {
        try {
            return (int) cuDeviceGet.invokeExact(device, ordinal);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuDeviceGetName(char *name, int length, CUdevice device);
    static int cuDeviceGetName(MemorySegment name, int length, int device) {
        try {
            return (int) cuDeviceGetName.invokeExact(name, length, device);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuDeviceGetPCIBusId(char *pciBusId, int length, CUdevice device);
    static int cuDeviceGetPCIBusId(MemorySegment pciBusId, int length, int device) {
        try {
            return (int) cuDeviceGetPCIBusId.invokeExact(pciBusId, length, device);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
    static int cuDeviceGetAttribute(MemorySegment value, int attribute, int device) {
        try {
            return (int) cuDeviceGetAttribute.invokeExact(value, attribute, device);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
    static int cuDeviceTotalMem_v2(MemorySegment bytes, int device) {
        try {
            return (int) cuDeviceTotalMem_v2.invokeExact(bytes, device);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
    static int cuDevicePrimaryCtxRetain(MemorySegment context, int device) {
        try {
            return (int) cuDevicePrimaryCtxRetain.invokeExact(context, device);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
    static int cuDevicePrimaryCtxRelease_v2(int device) {
        try {
            return (int) cuDevicePrimaryCtxRelease_v2.invokeExact(device);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuCtxSetCurrent(CUcontext context);
    static int cuCtxSetCurrent(long context) {
        try {
            return (int) cuCtxSetCurrent.invokeExact(context);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
    static int cuMemAlloc_v2(MemorySegment pointer, long bytes) {
        try {
            return (int) cuMemAlloc_v2.invokeExact(pointer, bytes);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuMemFree_v2(CUdeviceptr pointer);
    static int cuMemFree_v2(long pointer) {
        try {
            return (int) cuMemFree_v2.invokeExact(pointer);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
    static int cuMemGetInfo_v2(MemorySegment free, MemorySegment total) {
        try {
            return (int) cuMemGetInfo_v2.invokeExact(free, total);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags);
    static int cuMemHostAlloc(MemorySegment pointer, long bytes, int flags) {
        try {
            return (int) cuMemHostAlloc.invokeExact(pointer, bytes, flags);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuMemFreeHost(void *pointer);
    static int cuMemFreeHost(MemorySegment pointer) {
        try {
            return (int) cuMemFreeHost.invokeExact(pointer);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
    static int cuMemcpyHtoDAsync_v2(long to, MemorySegment from, long bytes, long stream) {
        try {
            return (int) cuMemcpyHtoDAsync_v2.invokeExact(to, from, bytes, stream);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
    static int cuMemcpyDtoHAsync_v2(MemorySegment to, long from, long bytes, long stream) {
        try {
            return (int) cuMemcpyDtoHAsync_v2.invokeExact(to, from, bytes, stream);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
    static int cuMemcpyDtoDAsync_v2(long to, long from, long bytes, long stream) {
        try {
            return (int) cuMemcpyDtoDAsync_v2.invokeExact(to, from, bytes, stream);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream);
    static int cuMemsetD8Async(long to, byte value, long bytes, long stream) {
        try {
            return (int) cuMemsetD8Async.invokeExact(to, value, bytes, stream);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuModuleLoadData(CUmodule *module, const void *image);
    static int cuModuleLoadData(MemorySegment module, MemorySegment image) {
        try {
            return (int) cuModuleLoadData.invokeExact(module, image);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuModuleUnload(CUmodule module);
    static int cuModuleUnload(long module) {
        try {
            return (int) cuModuleUnload.invokeExact(module);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
    static int cuModuleGetFunction(MemorySegment function, long module, MemorySegment name) {
        try {
            return (int) cuModuleGetFunction.invokeExact(function, module, name);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value);
    static int cuFuncSetAttribute(long function, int attribute, int value) {
        try {
            return (int) cuFuncSetAttribute.invokeExact(function, attribute, value);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuLaunchKernel(CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
    //     unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int sharedBytes,
    //     CUstream stream, void **parameters, void **extra);
    static int cuLaunchKernel(
            long function,
            int gridX,
            int gridY,
            int gridZ,
            int blockX,
            int blockY,
            int blockZ,
            int sharedBytes,
            long stream,
            MemorySegment parameters,
            MemorySegment extra) {
        try {
            return (int) cuLaunchKernel.invokeExact(
                    function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, stream, parameters, extra);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra);
    static int cuLaunchKernelEx(MemorySegment config, long function, MemorySegment parameters, MemorySegment extra) {
        try {
            return (int) cuLaunchKernelEx.invokeExact(config, function, parameters, extra);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
    static int cuStreamCreate(MemorySegment stream, int flags) {
        try {
            return (int) cuStreamCreate.invokeExact(stream, flags);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuStreamDestroy_v2(CUstream stream);
    static int cuStreamDestroy_v2(long stream) {
        try {
            return (int) cuStreamDestroy_v2.invokeExact(stream);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuStreamSynchronize(CUstream stream);
    static int cuStreamSynchronize(long stream) {
        try {
            return (int) cuStreamSynchronize.invokeExact(stream);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
    static int cuStreamBeginCapture_v2(long stream, int mode) {
        try {
            return (int) cuStreamBeginCapture_v2.invokeExact(stream, mode);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
    static int cuStreamEndCapture(long stream, MemorySegment graph) {
        try {
            return (int) cuStreamEndCapture.invokeExact(stream, graph);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags);
    static int cuGraphInstantiateWithFlags(MemorySegment executable, long graph, long flags) {
        try {
            return (int) cuGraphInstantiateWithFlags.invokeExact(executable, graph, flags);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream);
    static int cuGraphLaunch(long executable, long stream) {
        try {
            return (int) cuGraphLaunch.invokeExact(executable, stream);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuGraphExecDestroy(CUgraphExec executable);
    static int cuGraphExecDestroy(long executable) {
        try {
            return (int) cuGraphExecDestroy.invokeExact(executable);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuGraphDestroy(CUgraph graph);
    static int cuGraphDestroy(long graph) {
        try {
            return (int) cuGraphDestroy.invokeExact(graph);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuGetErrorName(CUresult status, const char **name);
    static int cuGetErrorName(int status, MemorySegment name) {
        try {
            return (int) cuGetErrorName.invokeExact(status, name);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // CUresult cuGetErrorString(CUresult status, const char **text);
    static int cuGetErrorString(int status, MemorySegment text) {
        try {
            return (int) cuGetErrorString.invokeExact(status, text);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }
}
