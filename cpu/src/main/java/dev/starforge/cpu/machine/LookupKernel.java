package dev.starforge.cpu.machine;

import static dev.starforge.cpu.machine.Assembler.at;
import static dev.starforge.cpu.machine.Instruction.VBLENDVPS;
import static dev.starforge.cpu.machine.Instruction.VFMADD231PS;
import static dev.starforge.cpu.machine.Instruction.VPAND;
import static dev.starforge.cpu.machine.Instruction.VPBROADCASTD;
import static dev.starforge.cpu.machine.Instruction.VPERMPS;
import static dev.starforge.cpu.machine.Instruction.VPOR;
import static dev.starforge.cpu.machine.Instruction.VPSLLD;
import static dev.starforge.cpu.machine.Instruction.VPSRLD;
import static dev.starforge.cpu.machine.Instruction.VPXOR;
import static dev.starforge.cpu.machine.Register.R8;
import static dev.starforge.cpu.machine.Register.R9;
import static dev.starforge.cpu.machine.Register.RAX;
import static dev.starforge.cpu.machine.Register.RCX;
import static dev.starforge.cpu.machine.Register.RDI;
import static dev.starforge.cpu.machine.Register.RDX;
import static dev.starforge.cpu.machine.Register.RSI;

import dev.starforge.tensor.codec.Nf4;

/**
 * Activations in float32 times a panel of NF4: a code is the place of its value in a table that one register holds, or two of
 * AVX2's. A block is one chain of fused multiply-adds of its values, which is then multiplied by the scale; the rest is as in {@link
 * PanelKernel}, whose arguments and registers it has. Activations of a tile lie token by token for each k.
 */
final class LookupKernel {
    private static final int PANEL = 128;
    private static final int HALF = 64;
    private static final int IN_INT = 8; // codes
    private static final float[] VALUES = Nf4.codes16();

    private final Assembler a;
    private final PanelFormat format;
    private final int tokens;
    private final boolean wide;
    private final int spare;

    private LookupKernel(Width width, PanelFormat format, int tokens) {
        a = new Assembler(width);
        this.format = format;
        this.tokens = tokens;
        wide = width == Width.ZMM;
        spare = 4 * tokens;
    }

    /** As {@link PanelKernel#assemble}. */
    static byte[] assemble(Width width, PanelFormat format, int tokens, boolean first) {
        LookupKernel kernel = new LookupKernel(width, format, tokens);
        kernel.emit(first);
        return kernel.a.assemble();
    }

    private int sum(int token, int half) {
        return 2 * token + half;
    }

    private int chain(int token, int half) {
        return 2 * (tokens + token) + half;
    }

    private void emit(boolean first) {
        a.mov(RAX, RDX);
        for (int t = 0; t < tokens; t++, a.add(RAX, R9)) {
            for (int half = 0; half < 2; half++) {
                if (first) {
                    a.op(VPXOR, sum(t, half), sum(t, half), sum(t, half));
                } else {
                    a.load(sum(t, half), at(RAX, HALF * half));
                }
            }
        }
        a.load(spare + 6, table(0));
        a.load(spare + 7, table(8));
        int block = a.here();
        block();
        a.repeat(RCX, block);
        for (int t = 0; t < tokens; t++, a.add(RDX, R9)) {
            a.store(at(RDX, 0), sum(t, 0));
            a.store(at(RDX, HALF), sum(t, 1));
        }
        a.vzeroupper();
        a.ret();
    }

    /** Sixteen values from one on, or the eight that half a register holds. */
    private Assembler.Mem table(int from) {
        int[] bits = new int[wide ? 16 : 8];
        for (int i = 0; i < bits.length; i++) {
            bits[i] = Float.floatToRawIntBits(VALUES[(from + i) % VALUES.length]);
        }
        return a.constant(bits);
    }

    private void block() {
        scales();
        for (int register = chain(0, 0); register < spare; register++) {
            a.op(VPXOR, register, register, register);
        }
        a.mov(RAX, format.elements() / IN_INT);
        int eight = a.here();
        eight();
        a.add(RDI, PANEL);
        a.add(RSI, IN_INT * Float.BYTES * tokens);
        a.repeat(RAX, eight);
        a.add(RDI, format.bytes() - format.elements() / IN_INT * PANEL);
        for (int half = 0; half < 2; half++) {
            a.load(spare, at(R8, HALF * half));
            for (int t = 0; t < tokens; t++) {
                a.op(VFMADD231PS, sum(t, half), chain(t, half), spare);
            }
        }
        if (format.planar()) {
            a.add(R8, PANEL);
        }
    }

    /** Floats whose low words and high words lie apart, to R8. */
    private void scales() {
        if (format.planar()) {
            return;
        }
        int low = spare;
        int high = spare + 1;
        int joined = spare + 2;
        a.load(low, at(RDI, 0));
        a.load(high, at(RDI, HALF));
        a.shift(VPSLLD, joined, high, 16);
        a.op(VPAND, spare + 3, low, a.constant(0x0000ffff));
        a.op(VPOR, joined, joined, spare + 3);
        a.store(at(R8, 0), joined);
        a.shift(VPSRLD, low, low, 16);
        a.op(VPAND, high, high, a.constant(0xffff0000));
        a.op(VPOR, joined, low, high);
        a.store(at(R8, HALF), joined);
    }

    /** Eight codes of each row. */
    private void eight() {
        int x = spare + 3;
        for (int k = 0; k < IN_INT; k++) {
            for (int half = 0; half < 2; half++) {
                lookUp(spare + 1 + half, HALF * half, 4 * k);
            }
            for (int t = 0; t < tokens; t++) {
                a.op(VPBROADCASTD, x, at(RSI, Float.BYTES * (k * tokens + t)));
                a.op(VFMADD231PS, chain(t, 0), spare + 1, x);
                a.op(VFMADD231PS, chain(t, 1), spare + 2, x);
            }
        }
    }

    /** The values of the codes that begin at a bit; what is above them does not matter. */
    private void lookUp(int to, int from, int bit) {
        int index = spare + 5;
        a.load(index, at(RDI, format.codesAt() + from));
        a.shift(VPSRLD, index, index, bit);
        a.op(VPERMPS, to, index, spare + 6);
        if (!wide) {
            a.op(VPERMPS, spare + 4, index, spare + 7);
            a.shift(VPSLLD, index, index, 28);
            a.op(VBLENDVPS, to, to, spare + 4, index << 4);
        }
    }
}
