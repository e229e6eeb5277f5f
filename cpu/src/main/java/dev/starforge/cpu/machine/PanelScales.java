package dev.starforge.cpu.machine;

import static dev.starforge.cpu.machine.Assembler.at;
import static dev.starforge.cpu.machine.Instruction.VCVTDQ2PS;
import static dev.starforge.cpu.machine.Instruction.VMULPS;
import static dev.starforge.cpu.machine.Instruction.VPAND;
import static dev.starforge.cpu.machine.Instruction.VPOR;
import static dev.starforge.cpu.machine.Instruction.VPSLLD;
import static dev.starforge.cpu.machine.Instruction.VPSRAD;
import static dev.starforge.cpu.machine.Instruction.VPSRLD;
import static dev.starforge.cpu.machine.Register.R8;
import static dev.starforge.cpu.machine.Register.RDI;

/**
 * Decodes the scales of a block of a panel to floats at R8: 32 per group, and the offsets from
 * {@link PanelFormat#SHIFTS_AT} on. An int of the panel has 16 bits of row r and above them 16 bits of row 16 + r. The
 * products of an fp16 value and six or eight bits are exact.
 */
final class PanelScales {
    private static final int HALF = 64; // from rows r to rows 16 + r, and from 16 bits of all rows to the next
    private static final int PANEL = 128;
    private static final int F16_BITS = 0x8fffe000; // sign, exponent and fraction of fp16, shifted left by 13
    private static final float TWO_TO_112 = 0x1p112f; // corrects the exponent bias

    private final Assembler a;
    private final PanelFormat format;
    private final int d0; // the first of ten free registers
    private final int d1;
    private final int m0;
    private final int m1;
    private final int v;
    private final int t;

    PanelScales(Assembler a, PanelFormat format, int free) {
        this.a = a;
        this.format = format;
        d0 = free;
        d1 = free + 1;
        m0 = free + 2;
        m1 = free + 3;
        v = free + 7;
        t = free + 8;
    }

    void emit() {
        switch (format.type()) {
            case Q4_0, Q5_0, Q8_0 -> units(d0, d1, 0, TWO_TO_112, 0);
            case Q4_1, Q5_1 -> {
                units(d0, d1, 0, TWO_TO_112, 0);
                units(m0, m1, HALF, TWO_TO_112, PanelFormat.SHIFTS_AT);
            }
            case Q4_K, Q5_K -> sixBits();
            case Q6_K -> bytes();
            default -> throw new IllegalArgumentException("scales: " + format.type() + " has none in its panels");
        }
    }

    private void units(int low, int high, int from, float factor, int to) {
        f16(low, high, from, factor);
        a.store(at(R8, to), low);
        a.store(at(R8, to + HALF), high);
    }

    /** Converts finite fp16 values to floats. */
    private void f16(int low, int high, int from, float factor) {
        a.load(high, at(RDI, from));
        a.shift(VPSLLD, low, high, 16);
        for (int half : new int[] {low, high}) {
            a.shift(VPSRAD, half, half, 3);
            a.op(VPAND, half, half, a.constant(F16_BITS));
            a.op(VMULPS, half, half, a.floats(factor));
        }
    }

    /** Decodes eight 6-bit scales and offsets in six words, after d and m of the block: see {@code Q4kQ5kCodec}. */
    private void sixBits() {
        f16(d0, d1, 0, TWO_TO_112);
        f16(m0, m1, HALF, -TWO_TO_112);
        int scales = m1 + 1;
        int shifts = m1 + 2;
        int mixed = m1 + 3;
        for (int pair = 0; pair < 2; pair++) {
            a.load(scales, at(RDI, HALF * (2 + pair)));
            a.load(shifts, at(RDI, HALF * (4 + pair)));
            a.load(mixed, at(RDI, HALF * (6 + pair)));
            for (int odd = 0; odd < 2; odd++) {
                int group = 2 * pair + odd;
                int byteAt = 8 * odd;
                bits(v, scales, byteAt, 0x003f003f);
                scaled(d0, d1, PANEL * group);
                bits(v, shifts, byteAt, 0x003f003f);
                scaled(m0, m1, PanelFormat.SHIFTS_AT + PANEL * group);
                bits(v, mixed, byteAt, 0x000f000f);
                bits(t, scales, byteAt + 2, 0x00300030);
                a.op(VPOR, v, v, t);
                scaled(d0, d1, PANEL * (group + 4));
                bits(v, mixed, byteAt + 4, 0x000f000f);
                bits(t, shifts, byteAt + 2, 0x00300030);
                a.op(VPOR, v, v, t);
                scaled(m0, m1, PanelFormat.SHIFTS_AT + PANEL * (group + 4));
            }
        }
    }

    private void bits(int to, int from, int right, int mask) {
        a.shift(VPSRLD, to, from, right);
        a.op(VPAND, to, to, a.constant(mask));
    }

    /** Multiplies both words of {@link #v} by their super-block scales. */
    private void scaled(int low, int high, int to) {
        a.op(VPAND, t, v, a.constant(0xffff));
        a.shift(VPSRLD, v, v, 16);
        product(t, low, to);
        product(v, high, to + HALF);
    }

    private void product(int whole, int unit, int to) {
        a.op(VCVTDQ2PS, whole, whole);
        a.op(VMULPS, whole, whole, unit);
        a.store(at(R8, to), whole);
    }

    /** Decodes sixteen signed bytes followed by their super-block scale. */
    private void bytes() {
        f16(d0, d1, HALF * 8, TWO_TO_112);
        for (int group = 0; group < 16; group++) {
            for (int half = 0; half < 2; half++) {
                a.load(v, at(RDI, HALF * (group / 2)));
                a.shift(VPSLLD, v, v, 24 - 16 * half - 8 * (group % 2));
                a.shift(VPSRAD, v, v, 24);
                product(v, half == 0 ? d0 : d1, PANEL * group + HALF * half);
            }
        }
    }
}
