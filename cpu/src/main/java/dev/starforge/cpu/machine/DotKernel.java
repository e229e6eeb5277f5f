package dev.starforge.cpu.machine;

import static dev.starforge.cpu.machine.Assembler.at;
import static dev.starforge.cpu.machine.Instruction.VCVTPH2PS;
import static dev.starforge.cpu.machine.Instruction.VDPBF16PS;
import static dev.starforge.cpu.machine.Instruction.VFMADD231PS;
import static dev.starforge.cpu.machine.Instruction.VPMOVZXWD;
import static dev.starforge.cpu.machine.Instruction.VPSLLD;
import static dev.starforge.cpu.machine.Instruction.VPXOR;
import static dev.starforge.cpu.machine.Register.R10;
import static dev.starforge.cpu.machine.Register.RAX;
import static dev.starforge.cpu.machine.Register.RCX;
import static dev.starforge.cpu.machine.Register.RDI;
import static dev.starforge.cpu.machine.Register.RDX;
import static dev.starforge.cpu.machine.Register.RSI;

import dev.starforge.tensor.DType;

/**
 * Matrix-vector product of rows of a float type in their file layout, in the summation order of {@code MatMul}: k in
 * blocks, each with sixteen chains of terms, which are the lanes of one AVX-512 vector or two AVX2 vectors. A term is a
 * product of floats or of bf16 pairs. Memory is read as one forward stream, row by row and block by block, which the
 * hardware prefetcher follows. The latency of a chain does not matter, since the next block is independent. If x does
 * not fit into the L1 cache, several rows are processed together, so that x is read once for them; each row is then a
 * stream of its own.
 */
final class DotKernel {
    private static final int CHAINS = 16;

    /** Bytes of the chains of one block. */
    static final int LANE_BYTES = CHAINS * Float.BYTES;

    /** Bytes of x that stay in the L1 cache beside the streamed rows. */
    private static final int L1_X_BYTES = 16 << 10;

    private final Assembler a;
    private final DType type;
    private final boolean pairs;
    private final int bytes; // per term
    private final int vectors; // of the chains
    private final int k;
    private final int depth;
    private final int rows; // processed together

    private DotKernel(Width width, DType type, boolean pairs, int k, int depth, int rows) {
        a = new Assembler(width);
        this.type = type;
        this.pairs = pairs;
        this.k = k;
        this.depth = depth;
        this.rows = rows;
        bytes = pairs ? 2 * type.bytes() : type.bytes();
        vectors = LANE_BYTES / width.bytes;
    }

    /**
     * Returns the number of rows to process together for an x of k terms; their sums take a quarter of the registers.
     */
    static int together(Width width, int k) {
        return k * Float.BYTES <= L1_X_BYTES ? 1 : width.registers / 4 * width.bytes / LANE_BYTES;
    }

    /**
     * @param type type of the rows; x is float32, or bf16 with {@code pairs}
     * @param k number of terms, in blocks of {@code depth}; both are multiples of 16
     * @param rows rows processed together
     * @return a function of (rows, x, chains of each block of each row, count of rows / {@code rows})
     */
    static byte[] assemble(Width width, DType type, boolean pairs, int k, int depth, int rows) {
        DotKernel kernel = new DotKernel(width, type, pairs, k, depth, rows);
        kernel.emit();
        return kernel.a.assemble();
    }

    private void emit() {
        int next = a.here();
        a.mov(R10, RSI);
        if (k >= depth) {
            a.mov(RAX, k / depth);
            int block = a.here();
            block(depth);
            a.repeat(RAX, block);
        }
        if (k % depth > 0) {
            block(k % depth);
        }
        a.add(RDI, (rows - 1) * k * bytes);
        a.add(RDX, (rows - 1) * chainBytes());
        a.repeat(RCX, next);
        a.vzeroupper();
        a.ret();
    }

    /** Returns the bytes of all chains of a row. */
    private int chainBytes() {
        return (k + depth - 1) / depth * LANE_BYTES;
    }

    private void block(int length) {
        int chains = rows * vectors;
        for (int chain = 0; chain < chains; chain++) {
            a.op(VPXOR, chain, chain, chain);
        }
        int lanes = CHAINS / vectors;
        for (int from = 0; from < length; from += lanes) {
            a.load(chains, at(R10, from * Float.BYTES));
            for (int row = 0; row < rows; row++) {
                int chain = row * vectors + from / lanes % vectors;
                Assembler.Mem weights = at(RDI, (row * k + from) * bytes);
                if (pairs) {
                    a.op(VDPBF16PS, chain, chains, weights);
                } else {
                    widen(chains + 1, weights);
                    a.op(VFMADD231PS, chain, chains + 1, chains);
                }
            }
        }
        for (int chain = 0; chain < chains; chain++) {
            int to = chain / vectors * chainBytes() + chain % vectors * a.width.bytes;
            a.store(at(RDX, to), chain);
        }
        a.add(RDI, length * bytes);
        a.add(R10, length * Float.BYTES);
        a.add(RDX, LANE_BYTES);
    }

    private void widen(int to, Assembler.Mem from) {
        switch (type) {
            case F32 -> a.load(to, from);
            case F16 -> a.op(VCVTPH2PS, to, from);
            case BF16 -> {
                a.op(VPMOVZXWD, to, from);
                a.shift(VPSLLD, to, to, 16);
            }
            default -> throw new IllegalArgumentException("dot: " + type + " is not a float type");
        }
    }
}
