package dev.starforge.cpu.machine;

import static dev.starforge.cpu.machine.Assembler.at;
import static dev.starforge.cpu.machine.Instruction.VADDPS;
import static dev.starforge.cpu.machine.Instruction.VDPBF16PS;
import static dev.starforge.cpu.machine.Instruction.VFMADD231PS;
import static dev.starforge.cpu.machine.Instruction.VPBROADCASTD;
import static dev.starforge.cpu.machine.Instruction.VPXOR;
import static dev.starforge.cpu.machine.Register.R10;
import static dev.starforge.cpu.machine.Register.R8;
import static dev.starforge.cpu.machine.Register.R9;
import static dev.starforge.cpu.machine.Register.RAX;
import static dev.starforge.cpu.machine.Register.RCX;
import static dev.starforge.cpu.machine.Register.RDI;
import static dev.starforge.cpu.machine.Register.RDX;
import static dev.starforge.cpu.machine.Register.RSI;

/**
 * The tile of {@code matmul.Tile}: six rows, whose elements are broadcast to vectors, and two vectors of a panel. Term
 * k belongs to chain k mod 16; the panel stores the terms of a chain together, and a finished chain is added to the
 * sums. The steps and their order are those of {@code Tile}, so results are bit-equal; this kernel avoids the JIT
 * compiler's spills and bounds checks. A term is a product of floats or of bf16 pairs. Chains are unrolled. Sums are in
 * memory and are updated once per chain of about thirty terms.
 */
final class TileKernel {
    static final int ROWS = 6;
    static final int CHAINS = 16;

    private final Assembler a;
    private final Instruction product;
    private final int rowBytes;
    private final int panelBytes;
    private final int vectors;
    private final int v; // registers; the registers before it are the chains
    private final int u;

    private TileKernel(Width width, boolean pairs, int rowBytes, int panelBytes) {
        a = new Assembler(width);
        product = pairs ? VDPBF16PS : VFMADD231PS;
        this.rowBytes = rowBytes;
        this.panelBytes = panelBytes;
        vectors = lanes(width, panelBytes) / width.bytes;
        v = ROWS * vectors;
        u = v + vectors;
    }

    /** Returns the bytes of a panel per call: two vectors, or one if the panel has no more. */
    static int lanes(Width width, int panelBytes) {
        return Math.min(2 * width.bytes, panelBytes);
    }

    /**
     * @param pairs true if a term is two products of bf16
     * @param depth number of terms
     * @param rowBytes bytes from one row to the next
     * @param panelBytes bytes from one term of the panel to the next, and from a row's sums to the next row's
     * @return a function of (rows, panel, sums, count of rows / 6), the first three as offsets from the first argument
     */
    static byte[] assemble(Width width, boolean pairs, int depth, int rowBytes, int panelBytes) {
        TileKernel kernel = new TileKernel(width, pairs, rowBytes, panelBytes);
        kernel.emit(depth);
        return kernel.a.assemble();
    }

    private void emit(int depth) {
        a.add(RSI, RDI);
        a.add(RDX, RDI);
        a.add(RCX, RDI);
        int six = a.here();
        a.mov(R9, RSI);
        a.mov(R10, RDX);
        chains(depth % CHAINS, depth / CHAINS + 1);
        chains(CHAINS - depth % CHAINS, depth / CHAINS);
        a.add(RSI, ROWS * rowBytes);
        a.add(RCX, ROWS * panelBytes);
        a.repeat(R8, six);
        a.vzeroupper();
        a.ret();
    }

    /** Emits {@code count} chains of {@code terms} terms each, at R9 and R10. */
    private void chains(int count, int terms) {
        if (count == 0 || terms == 0) {
            return;
        }
        a.mov(RAX, count);
        int chain = a.here();
        for (int c = 0; c < v; c++) {
            a.op(VPXOR, c, c, c);
        }
        for (int term = 0; term < terms; term++) {
            term(term * CHAINS * Float.BYTES, term * panelBytes);
        }
        for (int c = 0; c < v; c++) {
            Assembler.Mem sum = at(RCX, c / vectors * panelBytes + c % vectors * a.width.bytes);
            a.op(VADDPS, c, c, sum);
            a.store(sum, c);
        }
        a.add(R9, Float.BYTES);
        a.add(R10, terms * panelBytes);
        a.repeat(RAX, chain);
    }

    private void term(int fromRow, int fromPanel) {
        for (int i = 0; i < vectors; i++) {
            a.load(v + i, at(R10, fromPanel + i * a.width.bytes));
        }
        for (int row = 0; row < ROWS; row++) {
            a.op(VPBROADCASTD, u, at(R9, fromRow + row * rowBytes));
            for (int i = 0; i < vectors; i++) {
                a.op(product, vectors * row + i, u, v + i);
            }
        }
    }
}
