package dev.starforge.cpu.machine;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;

/**
 * Just-in-time assembled kernels for the instruction set of this CPU. A kernel is assembled on first use and kept until the
 * device closes. The Vector API has no byte dot product and no fp16 conversion; oneDNN, libxsmm and XNNPACK assemble their
 * kernels in the same way. Nothing native is built or shipped. If machine code is not available, {@link Availability} has the
 * reason, and Vector API kernels run instead.
 */
public final class MachineCode implements AutoCloseable {
    private final Width width;
    private final boolean bf16;
    private final CodePages pages;
    private final Map<Object, MachineKernel> kernels = new HashMap<>();

    /** Machine code if it is available, and the reason. */
    public record Availability(Optional<MachineCode> code, String reason) {}

    /** Cache key of an assembled panel matmul. */
    private record PanelKey(PanelFormat format, int tokens, boolean first) {}

    /** Cache key of a matrix-vector product with rows of a float type. */
    private record DotKey(DType type, boolean pairs, int k, int depth, int rows) {}

    /** Cache key of a tile of a float matmul. */
    private record TileKey(boolean pairs, int depth, int rowBytes, int panelBytes) {}

    private MachineCode(Width width, boolean bf16, CodePages pages) {
        this.width = width;
        this.bf16 = bf16;
        this.pages = pages;
    }

    /** @param hidden {@link DeviceOptions#hidden} */
    public static Availability choose(Set<String> hidden) {
        return choose(CpuFeatures.ofMachine(), hidden, CodePages::ofSystem);
    }

    static Availability choose(CpuFeatures machine, Set<String> hidden, Supplier<CodePages> system) {
        if (hidden.equals(DeviceOptions.NO_MACHINE_CODE)) {
            return none("switched off");
        }
        if (!CpuFeatures.ASKED.containsAll(hidden)) {
            throw new DeviceException("cpu: cannot hide " + hidden + "; expected " + DeviceOptions.NO_MACHINE_CODE
                    + " or some of " + CpuFeatures.ASKED);
        }
        CpuFeatures cpu = machine.without(hidden);
        if (!cpu.avx2()) {
            return none("needs Linux on x86-64 with AVX2, FMA and F16C");
        }
        if (Lanes.WIDTH < Width.YMM.bytes / Float.BYTES) {
            return none("needs JVM vectors of 256 bits, they have " + 32 * Lanes.WIDTH);
        }
        Width width = cpu.avx512() ? Width.ZMM : Width.YMM;
        try {
            MachineCode code = new MachineCode(width, cpu.bf16(), system.get());
            code.tryOne();
            String instructions = cpu.bf16() ? "AVX-512 with VNNI and BF16" : "AVX-512 with VNNI";
            return new Availability(
                    Optional.of(code), width == Width.ZMM ? instructions : "AVX2, no AVX-512 with VNNI");
        } catch (DeviceException | IllegalCallerException refused) {
            return none(String.valueOf(refused.getMessage()));
        }
    }

    private static Availability none(String reason) {
        return new Availability(Optional.empty(), reason);
    }

    /** Assembles one kernel, so that missing permission for executable memory is detected at startup. */
    private void tryOne() {
        Assembler nothing = new Assembler(width);
        nothing.vzeroupper();
        nothing.ret();
        MachineKernel kernel = new MachineKernel(pages.executable(nothing.assemble()));
        kernel.call(0, 0, 0, 0, 0, 0);
        pages.release(kernel.code());
    }

    /** Returns the maximum number of tokens per tile of a panel matmul. */
    public int panelTokens() {
        return PanelKernel.tokens(width);
    }

    /** Returns the factor of the sum of activations that corrects the offset of the quantized values of a format. */
    public int bias(PanelFormat format) {
        return format.bias(width == Width.ZMM);
    }

    /**
     * Returns the matmul of a tile of tokens with a panel; {@code first} starts the sums, otherwise it continues them.
     */
    public PanelProduct panelProduct(PanelFormat format, int tokens, boolean first) {
        MachineKernel kernel = kernel(
                new PanelKey(format, tokens, first),
                () -> format.exact()
                        ? LookupKernel.assemble(width, format, tokens, first)
                        : PanelKernel.assemble(width, format, tokens, first));
        return new PanelProduct(kernel, format, tokens, width);
    }

    /** Returns true if the CPU has dot products of bf16 pairs. */
    public boolean multipliesBf16() {
        return bf16;
    }

    /**
     * Returns the matrix-vector product of rows of a float type with one token, with k terms in blocks of
     * {@code depth}.
     *
     * @param pairs true if a term is two consecutive elements, with both factors in bf16
     */
    public DotProduct dotProduct(DType type, boolean pairs, int k, int depth) {
        int together = DotKernel.together(width, k);
        long blocks = (k + depth - 1) / depth;
        return new DotProduct(
                dotKernel(type, pairs, k, depth, together),
                together,
                dotKernel(type, pairs, k, depth, 1),
                (long) k * (pairs ? 2 : 1) * type.bytes(),
                (long) k * Float.BYTES,
                blocks * DotKernel.LANE_BYTES);
    }

    private MachineKernel dotKernel(DType type, boolean pairs, int k, int depth, int rows) {
        return kernel(
                new DotKey(type, pairs, k, depth, rows), () -> DotKernel.assemble(width, type, pairs, k, depth, rows));
    }

    /**
     * Returns the matmul of tiles of six rows with a panel of {@code lanes} columns.
     *
     * @param pairs true if a term is two products of bf16 and each float contains a pair
     * @param depth number of terms
     * @param stride floats from a row to the next
     * @param lanes columns of a panel, a multiple of 16
     */
    public TileProduct tileProduct(boolean pairs, int depth, int stride, int lanes) {
        int rowBytes = stride * Float.BYTES;
        int panelBytes = lanes * Float.BYTES;
        MachineKernel kernel = kernel(
                new TileKey(pairs, depth, rowBytes, panelBytes),
                () -> TileKernel.assemble(width, pairs, depth, rowBytes, panelBytes));
        return new TileProduct(kernel, depth, rowBytes, panelBytes, TileKernel.lanes(width, panelBytes));
    }

    /** Allocates memory for tensors, see {@link CodePages#data}. */
    public MemorySegment allocate(Arena arena, long bytes) {
        return pages.data(arena, bytes);
    }

    /** Returns the benchmark of peak int8 throughput. */
    public BytePeak bytePeak() {
        return new BytePeak(kernel(BytePeak.class, () -> BytePeak.assemble(width)), width);
    }

    private MachineKernel kernel(Object key, Supplier<byte[]> assemble) {
        return kernels.computeIfAbsent(key, _ -> new MachineKernel(pages.executable(assemble.get())));
    }

    @Override
    public void close() {
        for (MachineKernel kernel : kernels.values()) {
            pages.release(kernel.code());
        }
        kernels.clear();
    }

    /** Returns the address of a range of a native segment. Throws if the range is out of bounds. */
    static long address(MemorySegment segment, long from, long bytes) {
        if (from < 0 || bytes < 0 || from > segment.byteSize() - bytes || !segment.isNative()) {
            throw new IndexOutOfBoundsException("machine code: bytes " + from + " to " + (from + bytes) + " of "
                    + segment.byteSize() + (segment.isNative() ? "" : " on the heap"));
        }
        return segment.address() + from;
    }
}
