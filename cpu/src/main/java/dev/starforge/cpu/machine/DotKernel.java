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
 * Rows of a float type as they lie in their file times one token, in the order of {@code MatMul}: k in blocks, of each block
 * sixteen chains of terms, products of floats or pairs of those of bf16, which are the lanes of a vector, or of two of AVX2's. Memory is to be one stream that goes forward, which the
 * machine sees coming: row after row, block after block; that a chain waits for its last sum is no matter, since the next block
 * does not. An x that is too long to stay in the first level cache is instead read once for several rows, each then a stream that
 * is long enough for itself.
 */
final class DotKernel {
    private static final int CHAINS = 16;

    /** Bytes of the chains of a block. */
    static final int LANE_BYTES = CHAINS * Float.BYTES;

    /** Bytes of x that stay in the first level cache beside what streams through it. */
    private static final int L1_X_BYTES = 16 << 10;

    private final Assembler a;
    private final DType type;
    private final boolean pairs;
    private final int bytes; // of a term
    private final int vectors; // that the chains take
    private final int k;
    private final int depth;
    private final int rows; // together

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

    /** How many rows meet an x of k terms together; a quarter of the registers are their sums. */
    static int together(Width width, int k) {
        return k * Float.BYTES <= L1_X_BYTES ? 1 : width.registers / 4 * width.bytes / LANE_BYTES;
    }

    /**
     * @param type of the rows; x has floats, or, of {@code pairs}, both have bf16
     * @param k terms, a multiple of 16, in blocks of {@code depth}, which is one, too
     * @param rows that are taken together
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

    /** Of all chains of a row. */
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
            default -> throw new IllegalArgumentException("dot: " + type + " is no float type");
        }
    }
}
