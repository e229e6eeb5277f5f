package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.tensor.device.DeviceException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Bindings of NVRTC, CUDA's run-time compiler, with the function names of its header, and {@link #compile}. */
final class Nvrtc {
    private static final int SUCCESS = 0;

    static final NativeLibrary LIBRARY = NativeLibrary.open(
            "NVRTC was not found: no libnvrtc.so.13, libnvrtc.so.12 or libnvrtc.so, also not below /usr/local/cuda nor"
                    + " in a Python environment",
            NativeLibrary.searchPaths(
                    "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"));

    private static final MethodHandle nvrtcVersion =
            LIBRARY.handle("nvrtcVersion", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
    private static final MethodHandle nvrtcCreateProgram = LIBRARY.handle(
            "nvrtcCreateProgram",
            FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_INT, ADDRESS, ADDRESS));
    private static final MethodHandle nvrtcCompileProgram =
            LIBRARY.handle("nvrtcCompileProgram", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, ADDRESS));
    private static final MethodHandle nvrtcGetCUBINSize =
            LIBRARY.handle("nvrtcGetCUBINSize", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS));
    private static final MethodHandle nvrtcGetCUBIN =
            LIBRARY.handle("nvrtcGetCUBIN", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS));
    private static final MethodHandle nvrtcGetPTXSize =
            LIBRARY.handle("nvrtcGetPTXSize", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS));
    private static final MethodHandle nvrtcGetPTX =
            LIBRARY.handle("nvrtcGetPTX", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS));
    private static final MethodHandle nvrtcGetProgramLogSize =
            LIBRARY.handle("nvrtcGetProgramLogSize", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS));
    private static final MethodHandle nvrtcGetProgramLog =
            LIBRARY.handle("nvrtcGetProgramLog", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS));
    private static final MethodHandle nvrtcDestroyProgram =
            LIBRARY.handle("nvrtcDestroyProgram", FunctionDescriptor.of(JAVA_INT, ADDRESS));
    private static final MethodHandle nvrtcGetErrorString =
            LIBRARY.handle("nvrtcGetErrorString", FunctionDescriptor.of(ADDRESS, JAVA_INT));

    private Nvrtc() {}

    /** major.minor */
    static String version() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment major = arena.allocate(JAVA_INT);
            MemorySegment minor = arena.allocate(JAVA_INT);
            check(nvrtcVersion(major, minor), "NVRTC");
            return major.get(JAVA_INT, 0) + "." + minor.get(JAVA_INT, 0);
        }
    }

    /** Compiles {@code source} to machine code. Throws an exception with the compiler's log if it does not compile. */
    static byte[] compile(String name, String source, List<String> options) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment program = arena.allocate(JAVA_LONG);
            MemorySegment text = arena.allocateFrom(source, StandardCharsets.US_ASCII);
            check(
                    nvrtcCreateProgram(
                            program, text, arena.allocateFrom(name), 0, MemorySegment.NULL, MemorySegment.NULL),
                    name);
            try {
                MemorySegment pointers = arena.allocate(ADDRESS, options.size());
                for (int i = 0; i < options.size(); i++) {
                    pointers.setAtIndex(ADDRESS, i, arena.allocateFrom(options.get(i)));
                }
                long handle = program.get(JAVA_LONG, 0);
                int status = nvrtcCompileProgram(handle, options.size(), pointers);
                check(status, status == SUCCESS ? name : name + ": " + log(arena, handle));
                return cubin(arena, name, handle);
            } finally {
                check(nvrtcDestroyProgram(program), name);
            }
        }
    }

    private static byte[] cubin(Arena arena, String name, long program) {
        MemorySegment bytes = arena.allocate(JAVA_LONG);
        check(nvrtcGetCUBINSize(program, bytes), name);
        if (bytes.get(JAVA_LONG, 0) == 0) { // compiled for compute_NN: PTX only
            return ptx(arena, name, program);
        }
        MemorySegment cubin = arena.allocate(bytes.get(JAVA_LONG, 0));
        check(nvrtcGetCUBIN(program, cubin), name);
        return cubin.toArray(JAVA_BYTE);
    }

    private static byte[] ptx(Arena arena, String name, long program) {
        MemorySegment bytes = arena.allocate(JAVA_LONG);
        check(nvrtcGetPTXSize(program, bytes), name);
        MemorySegment ptx = arena.allocate(bytes.get(JAVA_LONG, 0)); // with its final zero
        check(nvrtcGetPTX(program, ptx), name);
        return ptx.toArray(JAVA_BYTE);
    }

    private static String log(Arena arena, long program) {
        MemorySegment bytes = arena.allocate(JAVA_LONG);
        check(nvrtcGetProgramLogSize(program, bytes), "the log of NVRTC");
        MemorySegment log = arena.allocate(bytes.get(JAVA_LONG, 0) + 1);
        check(nvrtcGetProgramLog(program, log), "the log of NVRTC");
        return log.getString(0);
    }

    @SuppressWarnings("restricted") // the string belongs to the library; its length is unknown
    private static void check(int status, String operation) {
        if (status != SUCCESS) {
            throw new DeviceException(operation + ": "
                    + nvrtcGetErrorString(status).reinterpret(Long.MAX_VALUE).getString(0));
        }
    }

    // nvrtcResult nvrtcVersion(int *major, int *minor);
    static int nvrtcVersion(MemorySegment major, MemorySegment minor) {
        try {
            return (int) nvrtcVersion.invokeExact(major, minor);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int headerCount,
    //     const char **headers, const char **includeNames);
    static int nvrtcCreateProgram(
            MemorySegment program,
            MemorySegment source,
            MemorySegment name,
            int headerCount,
            MemorySegment headers,
            MemorySegment includeNames) {
        try {
            return (int) nvrtcCreateProgram.invokeExact(program, source, name, headerCount, headers, includeNames);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int optionCount, const char **options);
    static int nvrtcCompileProgram(long program, int optionCount, MemorySegment options) {
        try {
            return (int) nvrtcCompileProgram.invokeExact(program, optionCount, options);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes);
    static int nvrtcGetCUBINSize(long program, MemorySegment bytes) {
        try {
            return (int) nvrtcGetCUBINSize.invokeExact(program, bytes);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin);
    static int nvrtcGetCUBIN(long program, MemorySegment cubin) {
        try {
            return (int) nvrtcGetCUBIN.invokeExact(program, cubin);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes);
    static int nvrtcGetPTXSize(long program, MemorySegment bytes) {
        try {
            return (int) nvrtcGetPTXSize.invokeExact(program, bytes);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *ptx);
    static int nvrtcGetPTX(long program, MemorySegment ptx) {
        try {
            return (int) nvrtcGetPTX.invokeExact(program, ptx);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes);
    static int nvrtcGetProgramLogSize(long program, MemorySegment bytes) {
        try {
            return (int) nvrtcGetProgramLogSize.invokeExact(program, bytes);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log);
    static int nvrtcGetProgramLog(long program, MemorySegment log) {
        try {
            return (int) nvrtcGetProgramLog.invokeExact(program, log);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program);
    static int nvrtcDestroyProgram(MemorySegment program) {
        try {
            return (int) nvrtcDestroyProgram.invokeExact(program);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // const char *nvrtcGetErrorString(nvrtcResult status);
    static MemorySegment nvrtcGetErrorString(int status) {
        try {
            return (MemorySegment) nvrtcGetErrorString.invokeExact(status);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }
}
