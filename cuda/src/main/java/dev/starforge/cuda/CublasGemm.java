package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Plain;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Dense matrix products by cuBLASLt: both operands of one type, float32 accumulation, no TF32. For each shape the library's first
 * heuristic result is used, which is deterministic, so that a step computes the same bits. Shapes without an algorithm, and unaligned
 * tensors, use the portable kernel. A row-major product is the column-major product of the transposed operands in reverse order.
 */
final class CublasGemm {
    /** NVIDIA's recommendation for Hopper. */
    private static final long WORKSPACE = 32L << 20;

    /** Least recently used plans are evicted: the shapes of packed sequences vary. */
    private static final int PLANS = 4096;

    private static final long ALIGNMENT = 16;

    /** cublasLtMatmulHeuristicResult_t. */
    private static final StructLayout HEURISTIC_RESULT = MemoryLayout.structLayout(
            MemoryLayout.sequenceLayout(8, JAVA_LONG).withName("algo"),
            JAVA_LONG.withName("workspaceSize"),
            JAVA_INT.withName("state"),
            JAVA_FLOAT.withName("wavesCount"),
            MemoryLayout.sequenceLayout(4, JAVA_INT).withName("reserved"));

    private static final int CUDA_R_32F = 0;
    private static final int CUDA_R_16F = 2;
    private static final int CUDA_R_16BF = 14;

    private final long handle;
    private final long stream;
    private final CudaMemory workspace;
    private final MemorySegment out;
    private final MemorySegment count;
    private final long preference;
    private final MemorySegment one;
    private final MemorySegment zero;
    private final Map<Problem, Optional<Plan>> plans = new LinkedHashMap<>(PLANS, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Problem, Optional<Plan>> eldest) {
            if (size() > PLANS) {
                eldest.getValue().ifPresent(Plan::close);
            }
            return size() > PLANS;
        }
    };

    private record Problem(Plain.MatMul op, DType factors, Shape a, Shape b, boolean bias) {}

    private record Plan(long desc, long first, long second, long result, Arena arena, MemorySegment algorithm) {
        void close() {
            CublasLt.cublasLtMatmulDescDestroy(desc);
            for (long layout : new long[] {first, second, result}) {
                CublasLt.cublasLtMatrixLayoutDestroy(layout);
            }
            arena.close();
        }
    }

    CublasGemm(long stream, CudaMemory workspace, Arena arena) {
        this.stream = stream;
        this.workspace = workspace;
        out = arena.allocate(JAVA_LONG);
        count = arena.allocate(JAVA_INT);
        one = arena.allocateFrom(JAVA_FLOAT, 1);
        zero = arena.allocateFrom(JAVA_FLOAT, 0);
        CublasLt.check(CublasLt.cublasLtCreate(out), "open cuBLASLt");
        handle = out.get(JAVA_LONG, 0);
        preference = preference();
    }

    static long workspaceBytes() {
        return WORKSPACE;
    }

    /** Returns false if cuBLASLt cannot compute the product; {@code addends} are those of {@link dev.starforge.kernels.Launcher#matmul}. */
    boolean run(Plain.MatMul op, Tensor a, Tensor b, List<Tensor> addends, Tensor c) {
        boolean bias = !addends.isEmpty() && addends.getFirst().shape().rank() == 1;
        boolean sum = addends.size() > (bias ? 1 : 0);
        Tensor addend = sum ? addends.getLast() : c;
        boolean types = a.dtype() == b.dtype() && (c.dtype() == a.dtype() || c.dtype() == DType.F32);
        long at = CudaMemory.pointer(a) | CudaMemory.pointer(b) | CudaMemory.pointer(addend) | CudaMemory.pointer(c);
        if (bias) {
            at |= CudaMemory.pointer(addends.getFirst());
        }
        if (!types || at % ALIGNMENT != 0 || a.shape().size() == 0) {
            return false;
        }
        Optional<Plan> found =
                plans.computeIfAbsent(new Problem(op, a.dtype(), a.shape(), b.shape(), bias), key -> plan(key, c));
        if (found.isEmpty()) {
            return false;
        }
        Plan plan = found.get();
        if (bias) {
            set(plan.desc, CublasLt.DESC_BIAS_POINTER, CudaMemory.pointer(addends.getFirst()));
        }
        CublasLt.check(
                CublasLt.cublasLtMatmul(
                        handle,
                        plan.desc,
                        one,
                        CudaMemory.pointer(b),
                        plan.first,
                        CudaMemory.pointer(a),
                        plan.second,
                        sum ? one : zero,
                        CudaMemory.pointer(addend),
                        plan.result,
                        CudaMemory.pointer(c),
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
        set(desc, CublasLt.DESC_TRANSA, op.transposeB() ? 1 : 0);
        set(desc, CublasLt.DESC_TRANSB, op.transposeA() ? 1 : 0);
        if (problem.bias) {
            set(desc, CublasLt.DESC_EPILOGUE, CublasLt.EPILOGUE_BIAS);
            set(desc, CublasLt.DESC_BIAS_POINTER, ALIGNMENT); // the choice depends on how a pointer is aligned
        }
        long first = layout(problem.factors, problem.b);
        long second = layout(problem.factors, problem.a);
        long result = layout(c.dtype(), c.shape());
        Arena own = Arena.ofConfined();
        Plan plan = new Plan(desc, first, second, result, own, own.allocate(HEURISTIC_RESULT));
        int status = CublasLt.cublasLtMatmulAlgoGetHeuristic(
                handle, desc, first, second, result, result, preference, 1, plan.algorithm, count);
        if (status == CublasLt.SUCCESS && count.get(JAVA_INT, 0) > 0) {
            return Optional.of(plan);
        }
        plan.close();
        return Optional.empty();
    }

    private void set(long desc, int attribute, int value) {
        out.set(JAVA_INT, 0, value);
        CublasLt.check(CublasLt.cublasLtMatmulDescSetAttribute(desc, attribute, out, Integer.BYTES), "MatMul");
    }

    private void set(long desc, int attribute, long pointer) {
        out.set(JAVA_LONG, 0, pointer);
        CublasLt.check(CublasLt.cublasLtMatmulDescSetAttribute(desc, attribute, out, Long.BYTES), "MatMul");
    }

    /** The layout of row-major matrices: column-major ones with rows and columns exchanged. */
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
        plans.values().forEach(plan -> plan.ifPresent(Plan::close));
        return CublasLt.cublasLtDestroy(handle);
    }
}
