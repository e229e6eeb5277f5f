package dev.starforge.cpu.machine;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starforge.cpu.core.Panels;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.codec.GroupCodec;
import dev.starforge.tensor.codec.MatrixCodec;
import dev.starforge.tensor.codec.PlanarCodec;
import dev.starforge.tensor.codec.PlanarMatrix;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * Kernels of random formats and shapes, in buffers that end or begin where no memory is: a byte too far ends the JVM. Results are
 * held against sums in double of the decoded weights. {@code -Dshapes=10000} makes it ten thousand.
 */
class GuardPagesTest {
    private static final int SHAPES = Integer.getInteger("shapes", 120);
    private static final int ROWS = Panels.ROWS;
    private static final long PAGE = 4096;
    private static final List<DType> TYPES = List.of(
            DType.Q8_0,
            DType.Q4_0,
            DType.Q4_K,
            DType.Q6_K,
            DType.Q5_K,
            DType.Q4_1,
            DType.Q5_0,
            DType.Q5_1,
            DType.INT8_128,
            DType.NF4,
            DType.NF4_DOUBLE);

    private static final MethodHandle MMAP =
            link("mmap", FunctionDescriptor.of(ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG));
    private static final MethodHandle MPROTECT =
            link("mprotect", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT));
    private static final MethodHandle MUNMAP = link("munmap", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG));

    private final Deque<MemorySegment> mapped = new ArrayDeque<>();

    @Test
    void kernelsStayInTheirBuffers() throws Throwable {
        assumeTrue(CpuFeatures.ofMachine().avx2(), "no AVX2 here");
        List<MachineCode> quants = List.of(
                MachineCode.choose(Set.of()).code().orElseThrow(),
                MachineCode.choose(Set.of("avx512_vnni")).code().orElseThrow());
        for (int i = 0; i < SHAPES; i++) {
            Random random = new Random(i);
            MachineCode code = quants.get(random.nextInt(quants.size()));
            switch (random.nextInt(6)) {
                case 0 -> dot(code, random);
                case 1 -> tile(code, random);
                default -> panel(code, random);
            }
            release();
        }
        quants.forEach(MachineCode::close);
    }

    private void panel(MachineCode code, Random random) throws Throwable {
        DType type = TYPES.get(random.nextInt(TYPES.size()));
        PanelFormat format = PanelFormat.of(type);
        int tokens = 1 + random.nextInt(code.panelTokens());
        int blocks = 1 + random.nextInt(5);
        int k = blocks * format.elements();
        float[] values = numbers(random, ROWS * k);
        ByteBuffer file = ByteBuffer.allocateDirect((int) new Spec(type, Shape.of(ROWS, k)).bytes());
        MatrixCodec.of(type).encode(values, ROWS, k, file);
        float[] w = MatrixCodec.of(type).decode(file, ROWS, k);
        float[] x = numbers(random, tokens * k);

        boolean end = random.nextBoolean();
        MemorySegment panel = guarded((long) blocks * format.bytes(), end);
        Panels.of(type).pack(MemorySegment.ofBuffer(file), 0, ROWS, k, panel, 0);
        MemorySegment in = guarded((long) k / PanelFormat.GROUP * tokens * format.activationBytes(), end);
        take(code, format, x, tokens, k, in);
        MemorySegment scales = guarded(format.planar() ? (long) blocks * ROWS * 4 : PanelFormat.SCALES, end);
        if (format.planar() && PlanarCodec.of(type) instanceof GroupCodec codec) {
            float[] decoded = new float[blocks * ROWS];
            codec.scales(new PlanarMatrix(file, ROWS, k), 0, ROWS, 0, blocks, decoded, 0, ROWS);
            MemorySegment.copy(decoded, 0, scales, JAVA_FLOAT_UNALIGNED, 0, decoded.length);
        }
        long step = 4L * (ROWS + random.nextInt(9));
        MemorySegment out = guarded((tokens - 1) * step + 4 * ROWS, end);
        boolean first = random.nextBoolean();
        out.fill((byte) 0);
        code.panelProduct(format, tokens, first).run(at(panel), at(in), at(out), step, blocks, at(scales));
        for (int t = 0; t < tokens; t++) {
            for (int row = 0; row < ROWS; row++) {
                check(type, out.get(JAVA_FLOAT_UNALIGNED, t * step + 4 * row), w, row * k, x, t * k, k);
            }
        }
    }

    /** Rounds x, in place, and lays it out: group by group quants, scales, then biases or sums; floats for exact formats. */
    private static void take(MachineCode code, PanelFormat format, float[] x, int tokens, int k, MemorySegment to) {
        for (int t = 0; t < tokens; t++) {
            for (int from = 0; from < k; from += 32) {
                long group = (long) from / 32 * tokens * format.activationBytes();
                if (format.exact()) {
                    for (int i = 0; i < 32; i++) {
                        to.set(JAVA_FLOAT_UNALIGNED, group + 4L * (i * tokens + t), x[t * k + from + i]);
                    }
                    continue;
                }
                float step = largest(x, t * k + from) / 127;
                int[] sums = new int[format.parts()];
                for (int i = 0; i < 32; i++) {
                    int rounded = Math.round(x[t * k + from + i] / step);
                    int place = format.woven() ? i & ~7 | (i & 1) << 2 | (i & 7) >> 1 : i;
                    to.set(JAVA_BYTE, group + 32L * t + place, (byte) rounded);
                    sums[i * sums.length / 32] += rounded;
                    x[t * k + from + i] = rounded * step;
                }
                to.set(JAVA_FLOAT_UNALIGNED, group + 32L * tokens + 4L * t, step);
                for (int part = 0; part < sums.length; part++) {
                    long at = group + (36L + 4 * part) * tokens + 4L * t;
                    if (format.shifted()) {
                        to.set(JAVA_FLOAT_UNALIGNED, at, step * sums[part]);
                    } else {
                        to.set(JAVA_INT_UNALIGNED, at, code.bias(format) * sums[part]);
                    }
                }
            }
        }
    }

    private void dot(MachineCode code, Random random) throws Throwable {
        DType type = List.of(DType.F32, DType.F16, DType.BF16).get(random.nextInt(3));
        boolean pairs = type == DType.BF16 && code.multipliesBf16() && random.nextBoolean();
        int each = pairs ? 2 : 1;
        int k = 16 * (1 + random.nextInt(random.nextBoolean() ? 80 : 400));
        int depth = 16 * (1 + random.nextInt(32));
        int rows = 1 + random.nextInt(18);
        boolean end = random.nextBoolean();
        float[] w = numbers(random, rows * k * each);
        float[] x = numbers(random, k * each);
        MemorySegment weights = guarded((long) w.length * type.bytes(), end);
        for (int i = 0; i < w.length; i++) {
            if (type == DType.F32) {
                weights.set(JAVA_FLOAT_UNALIGNED, 4L * i, w[i]);
            } else {
                short narrow = type.narrow(w[i]);
                weights.set(JAVA_SHORT_UNALIGNED, 2L * i, narrow);
                w[i] = type.widen(narrow);
            }
        }
        MemorySegment in = guarded(4L * k, end);
        if (pairs) {
            pairs(x, 0, k, in, 0);
        } else {
            MemorySegment.copy(x, 0, in, JAVA_FLOAT_UNALIGNED, 0, k);
        }
        int chains = (k + depth - 1) / depth * 16;
        MemorySegment out = guarded(4L * rows * chains, end);
        code.dotProduct(type, pairs, k, depth).run(weights, 0, rows, in, 0, out, 0);
        for (int row = 0; row < rows; row++) {
            float sum = 0;
            for (int i = 0; i < chains; i++) {
                sum += out.get(JAVA_FLOAT_UNALIGNED, 4L * (row * chains + i));
            }
            check(type, sum, w, row * k * each, x, 0, k * each);
        }
    }

    /** Rounds so many pairs of x to bf16, in place, and lays each out as a float. */
    private static void pairs(float[] x, int from, int pairs, MemorySegment to, long at) {
        for (int i = 0; i < 2 * pairs; i++) {
            short narrow = DType.BF16.narrow(x[from + i]);
            to.set(JAVA_SHORT_UNALIGNED, 4 * (at + i / 2) + i % 2 * 2, narrow);
            x[from + i] = DType.BF16.widen(narrow);
        }
    }

    /** Rows, panel and sums in one buffer, each of them at its end at times. */
    private void tile(MachineCode code, Random random) throws Throwable {
        int depth = 1 + random.nextInt(512);
        int stride = depth + random.nextInt(9);
        int lanes = 16 * (1 + random.nextInt(2));
        int tiles = 1 + random.nextInt(8);
        int rows = 6 * tiles;
        int[] sizes = {(rows - 1) * stride + depth, depth * lanes, rows * lanes};
        int[] at = new int[3];
        int last = random.nextInt(3);
        int size = 0;
        for (int i = 1; i <= 3; i++) {
            at[(last + i) % 3] = size;
            size += sizes[(last + i) % 3];
        }
        boolean pairs = code.multipliesBf16() && random.nextBoolean();
        int k = pairs ? 2 * depth : depth;
        float[] u = numbers(random, rows * k);
        float[] v = numbers(random, k * lanes);
        MemorySegment all = guarded(4L * size, random.nextBoolean());
        for (int row = 0; row < rows; row++) {
            if (pairs) {
                pairs(u, row * k, depth, all, at[0] + row * stride);
            } else {
                MemorySegment.copy(u, row * k, all, JAVA_FLOAT_UNALIGNED, 4L * (at[0] + row * stride), k);
            }
        }
        int term = at[1];
        for (int chain = 0; chain < 16; chain++) {
            for (int i = chain; i < depth; i += 16, term += lanes) {
                for (int lane = 0; lane < lanes; lane++) {
                    if (pairs) {
                        pairs(v, lane * k + 2 * i, 1, all, term + lane);
                    } else {
                        all.setAtIndex(JAVA_FLOAT_UNALIGNED, term + lane, v[lane * k + i]);
                    }
                }
            }
        }
        all.asSlice(4L * at[2], 4L * sizes[2]).fill((byte) 0);
        code.tileProduct(pairs, depth, stride, lanes).run(all, 4L * at[0], 4L * at[1], 4L * at[2], tiles);
        for (int i = 0; i < sizes[2]; i++) {
            float sum = all.getAtIndex(JAVA_FLOAT_UNALIGNED, at[2] + i);
            check(DType.F32, sum, u, i / lanes * k, v, i % lanes * k, k);
        }
    }

    private static void check(DType type, float actual, float[] w, int wAt, float[] x, int xAt, int k) {
        double sum = 0;
        double size = 0;
        for (int i = 0; i < k; i++) {
            double term = (double) w[wAt + i] * x[xAt + i];
            sum += term;
            size += Math.abs(term);
        }
        assertThat(Math.abs(actual - sum)).as("%s k %d", type, k).isLessThanOrEqualTo(4e-6 * size);
    }

    private static float largest(float[] x, int at) {
        float largest = 0;
        for (int i = at; i < at + 32; i++) {
            largest = Math.max(largest, Math.abs(x[i]));
        }
        return largest;
    }

    private static float[] numbers(Random random, int count) {
        float[] numbers = new float[count];
        for (int i = 0; i < count; i++) {
            numbers[i] = (float) random.nextGaussian();
        }
        return numbers;
    }

    /** So many bytes of NaN, right before a page that is not there, or right behind one. */
    private MemorySegment guarded(long bytes, boolean end) throws Throwable {
        long pages = (bytes + PAGE - 1) / PAGE;
        MemorySegment all = ((MemorySegment) MMAP.invokeExact(MemorySegment.NULL, (pages + 2) * PAGE, 3, 0x22, -1, 0L))
                .reinterpret((pages + 2) * PAGE);
        mapped.push(all);
        for (long page : new long[] {0, pages + 1}) {
            int done = (int) MPROTECT.invokeExact(all.asSlice(page * PAGE, PAGE), PAGE, 0);
            assertThat(done).isZero();
        }
        MemorySegment usable = all.asSlice(end ? (pages + 1) * PAGE - bytes : PAGE, bytes);
        return usable.fill((byte) 0xff);
    }

    @AfterEach
    void release() throws Throwable {
        while (!mapped.isEmpty()) {
            MemorySegment all = mapped.pop();
            int done = (int) MUNMAP.invokeExact(all, all.byteSize());
            assertThat(done).isZero();
        }
    }

    private static MethodHandle link(String name, FunctionDescriptor type) {
        Linker linker = Linker.nativeLinker();
        return linker.downcallHandle(linker.defaultLookup().findOrThrow(name), type);
    }

    private static PanelProduct.At at(MemorySegment segment) {
        return new PanelProduct.At(segment, 0);
    }
}
