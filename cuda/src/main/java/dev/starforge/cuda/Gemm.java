package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Plain;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Dense products by cuBLASLt: both factors of one type, sums in float32, without TF32. For a shape the library's first
 * choice is taken and kept, so that a step computes the same bits each time; what it has no algorithm for, or what is not
 * aligned, is left to our own kernel. A row-major product is the column-major product of the transposed factors, the second
 * one first.
 */
final class Gemm {
    /** What NVIDIA recommends for Hopper. */
    private static final long WORKSPACE = 32L << 20;

    private static final long ALIGNMENT = 16;
    private static final long RESULT_BYTES = 96;
    private static final int CUDA_R_32F = 0;
    private static final int CUDA_R_16F = 2;
    private static final int CUDA_R_16BF = 14;

    private final long handle;
    private final long stream;
    private final CudaMemory workspace;
    private final Arena arena;
    private final MemorySegment out;
    private final MemorySegment one;
    private final MemorySegment zero;
    private final Map<Problem, Optional<Plan>> plans = new HashMap<>();

    private record Problem(Plain.MatMul op, DType factors, Shape a, Shape b) {}

    private record Plan(long desc, long first, long second, long result, MemorySegment algorithm) {}

    Gemm(long stream, CudaMemory workspace, Arena arena) {
        this.stream = stream;
        this.workspace = workspace;
        this.arena = arena;
        out = arena.allocate(JAVA_LONG);
        one = arena.allocateFrom(JAVA_FLOAT, 1);
        zero = arena.allocateFrom(JAVA_FLOAT, 0);
        CublasLt.check(CublasLt.cublasLtCreate(out), "open cuBLASLt");
        handle = out.get(JAVA_LONG, 0);
    }

    static long workspaceBytes() {
        return WORKSPACE;
    }

    /** Whether it could. */
    boolean run(Plain.MatMul op, Tensor a, Tensor b, Tensor c) {
        boolean types = a.dtype() == b.dtype() && (c.dtype() == a.dtype() || c.dtype() == DType.F32);
        long at = CudaMemory.pointer(a) | CudaMemory.pointer(b) | CudaMemory.pointer(c);
        if (!types || at % ALIGNMENT != 0 || a.shape().size() == 0) {
            return false;
        }
        Optional<Plan> found =
                plans.computeIfAbsent(new Problem(op, a.dtype(), a.shape(), b.shape()), key -> plan(key, c));
        if (found.isEmpty()) {
            return false;
        }
        Plan plan = found.get();
        long y = CudaMemory.pointer(c);
        CublasLt.check(
                CublasLt.cublasLtMatmul(
                        handle,
                        plan.desc,
                        one,
                        CudaMemory.pointer(b),
                        plan.first,
                        CudaMemory.pointer(a),
                        plan.second,
                        zero,
                        y,
                        plan.result,
                        y,
                        plan.result,
                        plan.algorithm,
                        workspace.pointer(),
                        WORKSPACE,
                        stream),
                "MatMul " + a + " x " + b);
        return true;
    }

    private Optional<Plan> plan(Problem problem, Tensor c) {
        Plain.MatMul op = problem.op;
        CublasLt.check(CublasLt.cublasLtMatmulDescCreate(out, CublasLt.COMPUTE_32F, CUDA_R_32F), "MatMul");
        long desc = out.get(JAVA_LONG, 0);
        transpose(desc, CublasLt.DESC_TRANSA, op.transposeB());
        transpose(desc, CublasLt.DESC_TRANSB, op.transposeA());
        long first = layout(problem.factors, problem.b);
        long second = layout(problem.factors, problem.a);
        long result = layout(c.dtype(), c.shape());
        MemorySegment results = arena.allocate(RESULT_BYTES, JAVA_LONG.byteAlignment());
        MemorySegment found = arena.allocate(JAVA_INT);
        int status = CublasLt.cublasLtMatmulAlgoGetHeuristic(
                handle, desc, first, second, result, result, preference(), 1, results, found);
        return status == CublasLt.SUCCESS && found.get(JAVA_INT, 0) > 0
                ? Optional.of(new Plan(desc, first, second, result, results))
                : Optional.empty();
    }

    private void transpose(long desc, int attribute, boolean transposed) {
        out.set(JAVA_INT, 0, transposed ? 1 : 0);
        CublasLt.check(CublasLt.cublasLtMatmulDescSetAttribute(desc, attribute, out, Integer.BYTES), "MatMul");
    }

    /** Row-major matrices, which are column-major ones of so many rows as these have columns. */
    private long layout(DType type, Shape shape) {
        int code = switch (type) {
            case F16 -> CUDA_R_16F;
            case BF16 -> CUDA_R_16BF;
            default -> CUDA_R_32F;
        };
        long rows = shape.dim(-2);
        long columns = shape.dim(-1);
        CublasLt.check(CublasLt.cublasLtMatrixLayoutCreate(out, code, columns, rows, columns), "MatMul");
        long layout = out.get(JAVA_LONG, 0);
        long batches = shape.size() / (rows * columns);
        if (batches > 1) {
            out.set(JAVA_INT, 0, Math.toIntExact(batches));
            CublasLt.check(
                    CublasLt.cublasLtMatrixLayoutSetAttribute(layout, CublasLt.LAYOUT_BATCH_COUNT, out, Integer.BYTES),
                    "MatMul");
            out.set(JAVA_LONG, 0, rows * columns);
            CublasLt.check(
                    CublasLt.cublasLtMatrixLayoutSetAttribute(
                            layout, CublasLt.LAYOUT_STRIDED_BATCH_OFFSET, out, Long.BYTES),
                    "MatMul");
        }
        return layout;
    }

    private long preference() {
        CublasLt.check(CublasLt.cublasLtMatmulPreferenceCreate(out), "MatMul");
        long preference = out.get(JAVA_LONG, 0);
        out.set(JAVA_LONG, 0, WORKSPACE);
        CublasLt.check(
                CublasLt.cublasLtMatmulPreferenceSetAttribute(
                        preference, CublasLt.PREF_MAX_WORKSPACE_BYTES, out, Long.BYTES),
                "MatMul");
        out.set(JAVA_INT, 0, (int) ALIGNMENT);
        for (int matrix = 0; matrix < 4; matrix++) {
            CublasLt.check(
                    CublasLt.cublasLtMatmulPreferenceSetAttribute(
                            preference, CublasLt.PREF_MIN_ALIGNMENT_A_BYTES + matrix, out, Integer.BYTES),
                    "MatMul");
        }
        return preference;
    }

    int close() {
        return CublasLt.cublasLtDestroy(handle);
    }
}
