package dev.starforge.cpu.machine;

import static dev.starforge.cpu.machine.Assembler.at;
import static dev.starforge.cpu.machine.Instruction.VCVTDQ2PS;
import static dev.starforge.cpu.machine.Instruction.VFMADD231PS;
import static dev.starforge.cpu.machine.Instruction.VMULPS;
import static dev.starforge.cpu.machine.Instruction.VPABSB;
import static dev.starforge.cpu.machine.Instruction.VPADDB;
import static dev.starforge.cpu.machine.Instruction.VPADDD;
import static dev.starforge.cpu.machine.Instruction.VPADDW;
import static dev.starforge.cpu.machine.Instruction.VPAND;
import static dev.starforge.cpu.machine.Instruction.VPBROADCASTD;
import static dev.starforge.cpu.machine.Instruction.VPCMPEQB;
import static dev.starforge.cpu.machine.Instruction.VPDPBUSD;
import static dev.starforge.cpu.machine.Instruction.VPMADDUBSW;
import static dev.starforge.cpu.machine.Instruction.VPMADDWD;
import static dev.starforge.cpu.machine.Instruction.VPOR;
import static dev.starforge.cpu.machine.Instruction.VPSHUFB;
import static dev.starforge.cpu.machine.Instruction.VPSIGNB;
import static dev.starforge.cpu.machine.Instruction.VPSLLD;
import static dev.starforge.cpu.machine.Instruction.VPSRLD;
import static dev.starforge.cpu.machine.Instruction.VPTERNLOGD;
import static dev.starforge.cpu.machine.Instruction.VPTESTMB;
import static dev.starforge.cpu.machine.Instruction.VPXOR;
import static dev.starforge.cpu.machine.Register.R11;
import static dev.starforge.cpu.machine.Register.R8;
import static dev.starforge.cpu.machine.Register.R9;
import static dev.starforge.cpu.machine.Register.RAX;
import static dev.starforge.cpu.machine.Register.RCX;
import static dev.starforge.cpu.machine.Register.RDI;
import static dev.starforge.cpu.machine.Register.RDX;
import static dev.starforge.cpu.machine.Register.RSI;

import dev.starforge.cpu.machine.Assembler.Mem;

/**
 * Matmul of int8 activations with a panel of weights: exact int8 dot products of four bytes into int32 ({@code
 * vpdpbusd}), then multiplied by both scales. A lane is a row, so nothing is summed across lanes; a token's sum does
 * not depend on the other tokens in the tile. Each step unpacks 16 rows twice: rows r of the panel, and rows 16 + r.
 *
 * <p>Weights are the unsigned operand, so 128 is added to signed bytes, and 4- to 6-bit values are used without
 * subtracting their zero point; {@code bias} is the initial value of a sum that corrects this. AVX2 has no such
 * instruction: two instructions compute the sums in 16 bits, which do not overflow for values of up to six bits; for
 * 8-bit weights the sign is moved to x. AVX2 vectors have eight rows, so a panel needs two calls, {@link Width#bytes}
 * apart.
 *
 * <p>Registers: two float and two int accumulators per token, then eight scratch registers, the last of them a
 * constant. Activations are in groups of 32 for all tokens of a tile: quantized values, the scale, then either the
 * biases or scale times sum.
 */
final class PanelKernel {
    /** Registers beside the sums. */
    private static final int SCRATCH_REGISTERS = 8;

    private static final int GROUP = PanelFormat.GROUP;
    private static final int PANEL = 128; // bytes of 32 floats
    private static final int HALF = 64; // from rows r to rows 16 + r

    private final Assembler a;
    private final PanelFormat format;
    private final int tokens;
    private final boolean wide;
    private final int spare;
    private final int constant;

    private PanelKernel(Width width, PanelFormat format, int tokens) {
        a = new Assembler(width);
        this.format = format;
        this.tokens = tokens;
        wide = width == Width.ZMM;
        spare = 4 * tokens;
        constant = spare + SCRATCH_REGISTERS - 1;
    }

    /** Returns the maximum number of tokens per tile. */
    static int tokens(Width width) {
        return (width.registers - SCRATCH_REGISTERS) / 4;
    }

    /**
     * @param first whether to start new sums; otherwise they continue from y
     * @return a function of (weights, activations, y, blocks, scales, bytes from a token's y to the next one's)
     */
    static byte[] assemble(Width width, PanelFormat format, int tokens, boolean first) {
        PanelKernel kernel = new PanelKernel(width, format, tokens);
        kernel.emit(first);
        return kernel.a.assemble();
    }

    private int sum(int token, int half) {
        return 2 * token + half;
    }

    private int whole(int token, int half) {
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
        a.load(constant, a.constant(format.bits() == 8 ? 0x80808080 : 0x0f0f0f0f));
        int block = a.here();
        if (!format.planar()) {
            new PanelScales(a, format, 2 * tokens).emit();
        }
        groups();
        a.add(RDI, format.bytes() - format.groups() * codeBytes());
        if (format.planar()) {
            a.add(R8, PANEL);
        }
        a.repeat(RCX, block);
        for (int t = 0; t < tokens; t++, a.add(RDX, R9)) {
            a.store(at(RDX, 0), sum(t, 0));
            a.store(at(RDX, HALF), sum(t, 1));
        }
        a.vzeroupper();
        a.ret();
    }

    /** Returns the bytes of the quantized values of a group. */
    private int codeBytes() {
        return GROUP * PanelFormat.ROWS * format.bits() / Byte.SIZE;
    }

    /** Emits the loop over the groups of a block; RDI points to the quantized values. */
    private void groups() {
        a.mov(RAX, format.groups());
        a.mov(R11, R8);
        int group = a.here();
        for (int part = 0; part < format.parts(); part++) {
            begin(part);
            if (format.bits() == 8) {
                bytes();
            } else {
                nibbles(part);
            }
            finish(part);
        }
        a.add(RDI, codeBytes());
        a.add(RSI, tokens * format.activationBytes());
        if (!format.planar()) {
            a.add(R11, PANEL * format.parts());
        }
        a.repeat(RAX, group);
    }

    /**
     * Returns true if the sums of a group fit into 16 bits: 32 products of 4 and 8 bits, two per lane, are at most 16 *
     * 15 * 127.
     */
    private boolean inWords() {
        return !wide && format.bits() == 4;
    }

    /**
     * Initializes integer sums with their bias, or with zero if AVX2 or an offset needs none or it is added later in
     * wider lanes.
     */
    private void begin(int part) {
        for (int t = 0; t < tokens; t++) {
            for (int half = 0; half < 2; half++) {
                int to = whole(t, half);
                if (format.biased(wide) && !inWords()) {
                    a.op(VPBROADCASTD, to, at(RSI, (GROUP + 4 + 4 * part) * tokens + 4 * t));
                } else {
                    a.op(VPXOR, to, to, to);
                }
            }
        }
    }

    /** Processes signed bytes, four consecutive elements of a row per int. */
    private void bytes() {
        for (int quad = 0; quad < GROUP / 4; quad++) {
            for (int half = 0; half < 2; half++) {
                Mem from = at(RDI, format.quantsAt() + PANEL * quad + HALF * half);
                if (wide) {
                    a.op(VPXOR, spare + half, constant, from);
                } else {
                    a.load(spare + half, from);
                    a.op(VPABSB, spare + 2 + half, spare + half);
                }
            }
            dots(quad, spare, spare + 1);
        }
    }

    /** Processes ints with eight 4-bit values of a row: the even and the odd ones become bytes. */
    private void nibbles(int part) {
        int eights = GROUP / 8 / format.parts();
        for (int eight = part * eights; eight < (part + 1) * eights; eight++) {
            int sixteen = format.quantsAt() + eight / 2 * (codeBytes() / 2);
            if (format.lowAt() > 0 && eight % 2 == 0) {
                a.load(spare + 4, at(RDI, sixteen));
            }
            if (format.bits() == 6 && wide && eight % 2 == 0) {
                a.load(spare + 6, at(RDI, sixteen + HALF));
            }
            for (int half = 0; half < 2; half++) {
                a.load(spare + half, at(RDI, sixteen + format.lowAt() + PANEL * (eight % 2) + HALF * half));
            }
            for (int odd = 0; odd < 2; odd++) {
                for (int half = 0; half < 2; half++) {
                    int quants = spare + 2 + half;
                    a.op(VPAND, quants, spare + half, constant);
                    if (odd == 0) {
                        a.shift(VPSRLD, spare + half, spare + half, 4);
                    }
                    switch (format.bits()) {
                        case 5 -> fifth(quants, 2 * half + eight % 2, odd);
                        case 6 -> upperTwo(quants, sixteen, 4 - 4 * (eight % 2) - 2 * odd, half);
                        default -> {} // four
                    }
                }
                dots(2 * eight + odd, spare + 2, spare + 3);
            }
        }
    }

    /**
     * Joins four values and their upper bits, which are shifted left into place: see
     * {@link dev.starforge.cpu.core.Panels}. They are in registers or, if there are too few, in memory.
     */
    private void upperTwo(int quants, int sixteen, int left, int half) {
        int bits = spare + 5;
        int from = spare + 4 + 2 * half;
        if (!wide) {
            from = bits;
            a.load(bits, at(RDI, sixteen + HALF * half));
        }
        if (left != 0) {
            a.shift(left > 0 ? VPSLLD : VPSRLD, bits, from, Math.abs(left));
            from = bits;
        }
        if (wide) {
            a.op(VPTERNLOGD, quants, from, a.constant(0x30303030), 0xf8); // a | b & c
        } else {
            a.op(VPAND, bits, from, a.constant(0x30303030));
            a.op(VPOR, quants, quants, bits);
        }
    }

    /**
     * Adds the fifth bit (16) to four bytes, from every second bit of one byte of an int, beginning at the first or the
     * second.
     */
    private void fifth(int quants, int of, int odd) {
        int bits = spare + 6;
        int[] from = new int[4];
        for (int i = 0; i < from.length; i++) {
            from[i] = (4 * i + of) * 0x01010101;
        }
        Mem chosen = a.constant(0x40100401 << odd);
        a.op(VPSHUFB, bits, spare + 4, a.constant(from));
        if (wide) {
            a.op(VPTESTMB, 1, bits, chosen);
            a.masked(VPADDB, 1, quants, quants, a.constant(0x10101010));
        } else {
            a.op(VPAND, bits, bits, chosen);
            a.op(VPCMPEQB, bits, bits, chosen);
            a.op(VPAND, bits, bits, a.constant(0x10101010));
            a.op(VPOR, quants, quants, bits);
        }
    }

    /** Emits the dot products of four bytes of each row with four of each token. */
    private void dots(int quad, int w0, int w1) {
        int x = spare + 5;
        int product = spare + 6;
        for (int t = 0; t < tokens; t++) {
            a.op(VPBROADCASTD, x, at(RSI, GROUP * t + 4 * quad));
            for (int half = 0; half < 2; half++) {
                int w = half == 0 ? w0 : w1;
                int to = whole(t, half);
                if (wide) {
                    a.op(VPDPBUSD, to, w, x);
                    continue;
                }
                if (format.bits() == 8) {
                    a.op(VPSIGNB, product, x, w);
                    a.op(VPMADDUBSW, product, spare + 2 + half, product);
                } else {
                    a.op(VPMADDUBSW, product, w, x);
                }
                if (inWords()) {
                    a.op(VPADDW, to, to, product);
                    continue;
                }
                a.op(VPMADDWD, product, product, a.constant(0x00010001));
                a.op(VPADDD, to, to, product);
            }
        }
    }

    private void widen() {
        int bias = spare + 5;
        for (int t = 0; t < tokens; t++) {
            a.op(VPBROADCASTD, bias, at(RSI, (GROUP + 4) * tokens + 4 * t));
            for (int half = 0; half < 2; half++) {
                int quants = whole(t, half);
                a.op(VPMADDWD, quants, quants, a.constant(0x00010001));
                if (format.biased(wide)) {
                    a.op(VPADDD, quants, quants, bias);
                }
            }
        }
    }

    /** Adds integer sum * scale of x * scale of w, and offset of w * (scaled sum of x). */
    private void finish(int part) {
        int x = spare + 5;
        if (inWords()) {
            widen();
        }
        a.load(spare, at(R11, PANEL * part));
        a.load(spare + 1, at(R11, PANEL * part + HALF));
        for (int t = 0; t < tokens; t++) {
            a.op(VPBROADCASTD, x, at(RSI, GROUP * tokens + 4 * t));
            for (int half = 0; half < 2; half++) {
                int quants = whole(t, half);
                a.op(VCVTDQ2PS, quants, quants);
                a.op(VMULPS, quants, quants, x);
                a.op(VFMADD231PS, sum(t, half), quants, spare + half);
            }
        }
        if (format.shifted()) {
            a.load(spare, at(R11, PanelFormat.SHIFTS_AT));
            a.load(spare + 1, at(R11, PanelFormat.SHIFTS_AT + HALF));
            for (int t = 0; t < tokens; t++) {
                a.op(VPBROADCASTD, x, at(RSI, (GROUP + 4) * tokens + 4 * t));
                for (int half = 0; half < 2; half++) {
                    a.op(VFMADD231PS, sum(t, half), spare + half, x);
                }
            }
        }
    }
}
