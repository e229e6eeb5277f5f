package dev.starforge.cpu.matmul;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.machine.DotProduct;
import dev.starforge.cpu.machine.MachineCode;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.host.HostMemory;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * {@link MatMul} for a few rows of a and a weight of a float type in its file layout, by machine code: the same bits,
 * but widened on the way from memory to the product, by one instruction for sixteen. Chains are then added one after
 * the other; eight rows at a time, since each addition waits for the last.
 */
final class DotMatMul implements Product {
    private static final int CHAINS = MatMul.CHAINS;
    private static final int ROWS_IN_FLIGHT = 8;

    /** Rows of b of a chunk: a stream that is long enough for the machine to see it coming. */
    private static final int ROWS = 64;

    private static final ValueLayout.OfFloat FLOAT = ValueLayout.JAVA_FLOAT_UNALIGNED;

    private final DotProduct product;
    private final DType type;
    private final boolean pairs;
    private final int m;
    private final long n;
    private final int k; // terms
    private final int rowBytes;
    private final int chains; // of a row

    DotMatMul(MachineCode code, DType type, boolean pairs, long m, long n, long k) {
        this.type = type;
        this.pairs = pairs;
        this.m = Math.toIntExact(m);
        this.n = n;
        this.k = terms(pairs, k);
        rowBytes = Math.toIntExact(k * type.bytes());
        int depth = MatMul.depth(this.k);
        chains = (int) Workers.count(this.k, depth) * CHAINS;
        product = code.dotProduct(type, pairs, this.k, depth);
    }

    private static int terms(boolean pairs, long k) {
        return Math.toIntExact(pairs ? k / 2 : k);
    }

    static boolean has(DType type, boolean pairs, long m, long k) {
        return type.isFloat() && m <= MatMul.GEMV_MAX_ROWS && k > 0 && terms(pairs, k) % CHAINS == 0;
    }

    @Override
    public Scratch scratch() {
        long lanes = (long) ROWS * chains;
        long x = Lanes.pad(Float.BYTES * m * (long) k, 64);
        return new Scratch(0, Math.max(lanes + ROWS, Scratch.STRIP), 0, x, Float.BYTES * lanes);
    }

    @Override
    public void run(Workers workers, View a, long fromA, View b, long fromB, View c, long fromC) {
        workers.run(1, (chunk, s, own) -> {
            for (int i = 0; i < m * k; i += Scratch.STRIP) {
                int count = Math.min(Scratch.STRIP, m * k - i);
                if (pairs) {
                    a.loadPairs(fromA + 2 * i, count, s, own);
                } else {
                    a.load(fromA + i, count, s, own);
                }
                MemorySegment.copy(s, own, workers.bytes(), FLOAT, (long) Float.BYTES * i, count);
            }
        });
        workers.run(Workers.count(n, ROWS), (chunk, s, own) -> {
            long row = chunk * ROWS;
            int rows = (int) Math.min(ROWS, n - row);
            long from = fromB * type.bytes() + row * rowBytes;
            HostMemory.guard(b.segment, from + (long) rows * rowBytes - 1); // a file that was cut is met here
            for (int x = 0; x < m; x++) {
                long lanes = workers.ownBytes(own);
                long xAt = (long) Float.BYTES * x * k;
                product.run(b.segment, from, rows, workers.bytes(), xAt, workers.bytes(), lanes);
                MemorySegment.copy(workers.bytes(), FLOAT, lanes, s, own, rows * chains);
                sums(s, own, rows, own + ROWS * chains);
                c.store(fromC + x * n + row, rows, s, own + ROWS * chains);
            }
        });
    }

    private void sums(float[] s, int lanes, int rows, int to) {
        int row = 0;
        for (; row + ROWS_IN_FLIGHT <= rows; row += ROWS_IN_FLIGHT) {
            eight(s, lanes + row * chains, to + row);
        }
        for (; row < rows; row++) {
            float sum = 0;
            for (int i = lanes + row * chains; i < lanes + (row + 1) * chains; i++) {
                sum += s[i];
            }
            s[to + row] = sum;
        }
    }

    private void eight(float[] s, int lanes, int to) {
        float y0 = 0;
        float y1 = 0;
        float y2 = 0;
        float y3 = 0;
        float y4 = 0;
        float y5 = 0;
        float y6 = 0;
        float y7 = 0;
        for (int i = lanes; i < lanes + chains; i++) {
            y0 += s[i];
            y1 += s[i + chains];
            y2 += s[i + 2 * chains];
            y3 += s[i + 3 * chains];
            y4 += s[i + 4 * chains];
            y5 += s[i + 5 * chains];
            y6 += s[i + 6 * chains];
            y7 += s[i + 7 * chains];
        }
        s[to] = y0;
        s[to + 1] = y1;
        s[to + 2] = y2;
        s[to + 3] = y3;
        s[to + 4] = y4;
        s[to + 5] = y5;
        s[to + 6] = y6;
        s[to + 7] = y7;
    }
}
