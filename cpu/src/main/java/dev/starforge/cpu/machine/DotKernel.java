package dev.starforge.cpu.machine;

import static dev.starforge.cpu.machine.Assembler.at;
import static dev.starforge.cpu.machine.Instruction.VCVTPH2PS;
import static dev.starforge.cpu.machine.Instruction.VFMADD231PS;
import static dev.starforge.cpu.machine.Instruction.VPMOVZXWD;
import static dev.starforge.cpu.machine.Instruction.VPSLLD;
import static dev.starforge.cpu.machine.Instruction.VPXOR;
import static dev.starforge.cpu.machine.Register.R10;
import static dev.starforge.cpu.machine.Register.R9;
import static dev.starforge.cpu.machine.Register.RAX;
import static dev.starforge.cpu.machine.Register.RCX;
import static dev.starforge.cpu.machine.Register.RDI;
import static dev.starforge.cpu.machine.Register.RDX;
import static dev.starforge.cpu.machine.Register.RSI;

import dev.starforge.tensor.DType;

/**
 * Rows of a float type as they lie in their file times one token, in the order of {@code MatMul}: k in blocks, of each block
 * sixteen chains, which are the lanes of a vector, or of two of AVX2's. Row after row, so that memory is one stream; within a row
 * some blocks side by side, since a chain waits for its last sum.
 */
final class DotKernel {
    private static final int CHAINS = 16;

    /** Bytes of the chains of a block. */
    static final int LANE_BYTES = CHAINS * Float.BYTES;

    private static final int TOGETHER = 4; // blocks

    private final Assembler a;
    private final DType type;
    private final int bytes; // of an element
    private final int vectors; // that the chains take

    private DotKernel(Width width, DType type) {
        a = new Assembler(width);
        this.type = type;
        bytes = type.bytes();
        vectors = LANE_BYTES / width.bytes;
    }

    /**
     * @param k a multiple of 16, in blocks of {@code depth}, which is one, too
     * @return a function of (rows, x, chains of each block of each row, count of rows)
     */
    static byte[] assemble(Width width, DType type, int k, int depth) {
        DotKernel kernel = new DotKernel(width, type);
        kernel.emit(k, depth);
        return kernel.a.assemble();
    }

    private void emit(int k, int depth) {
        int row = a.here();
        for (int from = 0; from < k; ) {
            int length = Math.min(depth, k - from);
            int blocks = Math.min(TOGETHER, (k - from) / length);
            blocks(from, length, blocks, from / depth);
            from += blocks * length;
        }
        a.add(RDI, k * bytes);
        a.add(RDX, (k + depth - 1) / depth * LANE_BYTES);
        a.repeat(RCX, row);
        a.vzeroupper();
        a.ret();
    }

    private void blocks(int from, int length, int blocks, int first) {
        int w = TOGETHER * vectors;
        for (int chain = 0; chain < blocks * vectors; chain++) {
            a.op(VPXOR, chain, chain, chain);
        }
        a.lea(R9, at(RDI, from * bytes));
        a.lea(R10, at(RSI, from * Float.BYTES));
        a.mov(RAX, length / CHAINS);
        int step = a.here();
        for (int block = 0; block < blocks; block++) {
            for (int part = 0; part < vectors; part++) {
                int element = block * length + part * (CHAINS / vectors);
                widen(w, at(R9, element * bytes));
                a.op(VFMADD231PS, block * vectors + part, w, at(R10, element * Float.BYTES));
            }
        }
        a.add(R9, CHAINS * bytes);
        a.add(R10, LANE_BYTES);
        a.repeat(RAX, step);
        for (int chain = 0; chain < blocks * vectors; chain++) {
            a.store(at(RDX, first * LANE_BYTES + chain * a.width.bytes), chain);
        }
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
