package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.MemoryException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** Bindings of cuBLASLt, NVIDIA's matmul library, with the function names of its header. */
final class CublasLt {
    static final int SUCCESS = 0;
    private static final int ALLOC_FAILED = 3;
    static final int COMPUTE_32F = 68;
    static final int DESC_TRANSA = 3;
    static final int DESC_TRANSB = 4;
    static final int DESC_EPILOGUE = 7;
    static final int DESC_BIAS_POINTER = 8;
    static final int EPILOGUE_BIAS = 4;
    static final int LAYOUT_BATCH_COUNT = 5;
    static final int LAYOUT_STRIDED_BATCH_OFFSET = 6;
    static final int PREF_MAX_WORKSPACE_BYTES = 1;
    static final int PREF_MIN_ALIGNMENT_A_BYTES = 5;

    static final NativeLibrary LIBRARY = NativeLibrary.open(
            "cuBLASLt was not found: no libcublasLt.so.13 or .12, also not below /usr/local/cuda nor in a Python"
                    + " environment",
            NativeLibrary.searchPaths(
                    "libcublasLt.so.13", "libcublasLt.so.12", "cublasLt64_13.dll", "cublasLt64_12.dll"));

    private static final MethodHandle cublasLtCreate =
            LIBRARY.handle("cublasLtCreate", FunctionDescriptor.of(JAVA_INT, ADDRESS));
    private static final MethodHandle cublasLtDestroy =
            LIBRARY.handle("cublasLtDestroy", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle cublasLtMatmulDescCreate =
            LIBRARY.handle("cublasLtMatmulDescCreate", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT));
    private static final MethodHandle cublasLtMatmulDescDestroy =
            LIBRARY.handle("cublasLtMatmulDescDestroy", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle cublasLtMatmulDescSetAttribute = LIBRARY.handle(
            "cublasLtMatmulDescSetAttribute", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG));
    private static final MethodHandle cublasLtMatrixLayoutCreate = LIBRARY.handle(
            "cublasLtMatrixLayoutCreate",
            FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle cublasLtMatrixLayoutDestroy =
            LIBRARY.handle("cublasLtMatrixLayoutDestroy", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle cublasLtMatrixLayoutSetAttribute = LIBRARY.handle(
            "cublasLtMatrixLayoutSetAttribute",
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG));
    private static final MethodHandle cublasLtMatmulPreferenceCreate =
            LIBRARY.handle("cublasLtMatmulPreferenceCreate", FunctionDescriptor.of(JAVA_INT, ADDRESS));
    private static final MethodHandle cublasLtMatmulPreferenceSetAttribute = LIBRARY.handle(
            "cublasLtMatmulPreferenceSetAttribute",
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG));
    private static final MethodHandle cublasLtMatmulAlgoGetHeuristic = LIBRARY.handle(
            "cublasLtMatmulAlgoGetHeuristic",
            FunctionDescriptor.of(
                    JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT,
                    ADDRESS, ADDRESS));
    private static final MethodHandle cublasLtMatmul = LIBRARY.handle(
            "cublasLtMatmul",
            FunctionDescriptor.of(
                    JAVA_INT, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS,
                    JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG));

    private CublasLt() {}

    static void check(int status, String operation) {
        if (status == ALLOC_FAILED) {
            throw new MemoryException(
                    operation + ": cuBLASLt has no memory; end what else uses the GPU, or ask for less");
        }
        if (status != SUCCESS) {
            throw new DeviceException(operation + ": cuBLASLt status " + status);
        }
    }

    // cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
    static int cublasLtCreate(MemorySegment handle) {
        try {
            return (int) cublasLtCreate.invokeExact(handle);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
    static int cublasLtDestroy(long handle) {
        try {
            return (int) cublasLtDestroy.invokeExact(handle);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t
    // scale);
    static int cublasLtMatmulDescCreate(MemorySegment desc, int compute, int scale) {
        try {
            return (int) cublasLtMatmulDescCreate.invokeExact(desc, compute, scale);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc);
    static int cublasLtMatmulDescDestroy(long desc) {
        try {
            return (int) cublasLtMatmulDescDestroy.invokeExact(desc);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, int attribute, const void *value, size_t
    // bytes);
    static int cublasLtMatmulDescSetAttribute(long desc, int attribute, MemorySegment value, long bytes) {
        try {
            return (int) cublasLtMatmulDescSetAttribute.invokeExact(desc, attribute, value, bytes);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
    //     uint64_t columns, int64_t ld);
    static int cublasLtMatrixLayoutCreate(MemorySegment layout, int type, long rows, long columns, long ld) {
        try {
            return (int) cublasLtMatrixLayoutCreate.invokeExact(layout, type, rows, columns, ld);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
    static int cublasLtMatrixLayoutDestroy(long layout) {
        try {
            return (int) cublasLtMatrixLayoutDestroy.invokeExact(layout);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int attribute, const void *value,
    //     size_t bytes);
    static int cublasLtMatrixLayoutSetAttribute(long layout, int attribute, MemorySegment value, long bytes) {
        try {
            return (int) cublasLtMatrixLayoutSetAttribute.invokeExact(layout, attribute, value, bytes);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference);
    static int cublasLtMatmulPreferenceCreate(MemorySegment preference) {
        try {
            return (int) cublasLtMatmulPreferenceCreate.invokeExact(preference);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, int attribute,
    //     const void *value, size_t bytes);
    static int cublasLtMatmulPreferenceSetAttribute(long preference, int attribute, MemorySegment value, long bytes) {
        try {
            return (int) cublasLtMatmulPreferenceSetAttribute.invokeExact(preference, attribute, value, bytes);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
    //     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    //     cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t results[], int *found);
    static int cublasLtMatmulAlgoGetHeuristic(
            long handle,
            long desc,
            long a,
            long b,
            long c,
            long d,
            long preference,
            int wanted,
            MemorySegment results,
            MemorySegment found) {
        try {
            return (int) cublasLtMatmulAlgoGetHeuristic.invokeExact(
                    handle, desc, a, b, c, d, preference, wanted, results, found);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }

    // cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void
    // *a,
    //     cublasLtMatrixLayout_t aLayout, const void *b, cublasLtMatrixLayout_t bLayout, const void *beta, const void
    // *c,
    //     cublasLtMatrixLayout_t cLayout, void *d, cublasLtMatrixLayout_t dLayout, const cublasLtMatmulAlgo_t *algo,
    //     void *workspace, size_t workspaceBytes, cudaStream_t stream);
    static int cublasLtMatmul(
            long handle,
            long desc,
            MemorySegment alpha,
            long a,
            long aLayout,
            long b,
            long bLayout,
            MemorySegment beta,
            long c,
            long cLayout,
            long d,
            long dLayout,
            MemorySegment algo,
            long workspace,
            long workspaceBytes,
            long stream) {
        try {
            return (int) cublasLtMatmul.invokeExact(
                    handle,
                    desc,
                    alpha,
                    a,
                    aLayout,
                    b,
                    bLayout,
                    beta,
                    c,
                    cLayout,
                    d,
                    dLayout,
                    algo,
                    workspace,
                    workspaceBytes,
                    stream);
        } catch (Throwable thrown) {
            throw NativeLibrary.unchecked(thrown);
        }
    }
}
