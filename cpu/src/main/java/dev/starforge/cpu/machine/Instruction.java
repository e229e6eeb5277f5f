package dev.starforge.cpu.machine;

import static dev.starforge.cpu.machine.Instruction.OperandForm.BLEND;
import static dev.starforge.cpu.machine.Instruction.OperandForm.MASK;
import static dev.starforge.cpu.machine.Instruction.OperandForm.SHIFT;
import static dev.starforge.cpu.machine.Instruction.OperandForm.THREE;
import static dev.starforge.cpu.machine.Instruction.OperandForm.TWO;

import java.util.Locale;

/**
 * The vector instructions of the kernels, with prefix, opcode map and opcode as in Intel's manual. They are equal for
 * VEX (256 bits) and EVEX (512 bits), so one constant serves both widths.
 */
enum Instruction {
    VMOVDQU(TWO, 0xf3, 1, 0x6f, 1, "vmovdqu32"),
    VPBROADCASTD(TWO, 0x66, 2, 0x58, 0),
    VPMOVZXWD(TWO, 0x66, 2, 0x33, 2),
    VCVTPH2PS(TWO, 0x66, 2, 0x13, 2),
    VCVTDQ2PS(TWO, 0, 1, 0x5b, 1),
    VPABSB(TWO, 0x66, 2, 0x1c, 1),
    VPADDB(THREE, 0x66, 1, 0xfc, 1),
    VPADDW(THREE, 0x66, 1, 0xfd, 1),
    VPADDD(THREE, 0x66, 1, 0xfe, 1),
    VPAND(THREE, 0x66, 1, 0xdb, 1, "vpandd"),
    VPOR(THREE, 0x66, 1, 0xeb, 1, "vpord"),
    VPXOR(THREE, 0x66, 1, 0xef, 1, "vpxord"),
    VPSHUFB(THREE, 0x66, 2, 0x00, 1),
    VPMADDUBSW(THREE, 0x66, 2, 0x04, 1),
    VPMADDWD(THREE, 0x66, 1, 0xf5, 1),
    VMULPS(THREE, 0, 1, 0x59, 1),
    VADDPS(THREE, 0, 1, 0x58, 1),
    VFMADD231PS(THREE, 0x66, 2, 0xb8, 1),
    VPERMPS(THREE, 0x66, 2, 0x16, 1),
    VPSLLD(SHIFT, 0x66, 1, 0x72, 6),
    VPSRLD(SHIFT, 0x66, 1, 0x72, 2),
    VPSRAD(SHIFT, 0x66, 1, 0x72, 4),
    /** 256 bits only. */
    VPSIGNB(THREE, 0x66, 2, 0x08, 1),
    VPCMPEQB(THREE, 0x66, 1, 0x74, 1),
    VBLENDVPS(BLEND, 0x66, 3, 0x4a, 1),
    /** 512 bits only. */
    VPDPBUSD(THREE, 0x66, 2, 0x50, 1),
    VDPBF16PS(THREE, 0xf3, 2, 0x52, 1),
    VPTERNLOGD(BLEND, 0x66, 3, 0x25, 1),
    VPTESTMB(MASK, 0x66, 2, 0x26, 1);

    /**
     * Operand forms: a destination and a source; a second source; a source and a count; two sources and an immediate; a
     * mask as destination.
     */
    enum OperandForm {
        TWO,
        THREE,
        SHIFT,
        BLEND,
        MASK
    }

    final OperandForm form;
    final int prefix;
    final int map;
    final int opcode;

    /**
     * For a shift, the opcode extension in ModRM; otherwise the fraction of a vector that a memory operand has: 0 for
     * an int.
     */
    final int detail;

    private final String wide;

    Instruction(OperandForm form, int prefix, int map, int opcode, int detail) {
        this(form, prefix, map, opcode, detail, "");
    }

    Instruction(OperandForm form, int prefix, int map, int opcode, int detail, String wide) {
        this.form = form;
        this.prefix = prefix;
        this.map = map;
        this.opcode = opcode;
        this.detail = detail;
        this.wide = wide;
    }

    /** Returns the mnemonic as printed by a disassembler. */
    String mnemonic(Width width) {
        return width == Width.ZMM && !wide.isEmpty() ? wide : name().toLowerCase(Locale.ROOT);
    }

    /** Returns the two-bit prefix field of VEX and EVEX. */
    int prefixBits() {
        return switch (prefix) {
            case 0x66 -> 1;
            case 0xf3 -> 2;
            default -> 0;
        };
    }

    /** Returns the size of a memory operand in bytes. */
    int bytes(Width width) {
        return detail == 0 ? Integer.BYTES : width.bytes / detail;
    }
}
