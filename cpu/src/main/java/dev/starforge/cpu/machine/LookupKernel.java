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
 * Matmul of float32 activations with a panel of NF4: a 4-bit value is an index into a lookup table in one AVX-512
 * register or two AVX2 registers. A block is one chain of fused multiply-adds, which is then multiplied by the scale.
 * Arguments and registers are those of {@link PanelKernel}. The activations of a tile are stored token by token for
 * each k.
 */
final class LookupKernel {
    private static final int PANEL = 128;
    private static final int HALF = 64;
    private static final int IN_INT = 8; // 4-bit values
    private static final float[] VALUES = Nf4.quants16();

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

    /** Returns the table of sixteen values, or of eight from {@code from} on for AVX2. */
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

    /** Writes scales, whose low and high 16-bit words are stored separately, as floats to R8. */
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

    /** Processes eight 4-bit values of each row. */
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

    /** Looks up the 4-bit values that begin at a bit; higher bits are ignored. */
    private void lookUp(int to, int from, int bit) {
        int index = spare + 5;
        a.load(index, at(RDI, format.quantsAt() + from));
        a.shift(VPSRLD, index, index, bit);
        a.op(VPERMPS, to, index, spare + 6);
        if (!wide) {
            a.op(VPERMPS, spare + 4, index, spare + 7);
            a.shift(VPSLLD, index, index, 28);
            a.op(VBLENDVPS, to, to, spare + 4, index << 4);
        }
    }
}
