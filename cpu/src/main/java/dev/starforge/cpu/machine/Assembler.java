package dev.starforge.cpu.machine;

import static dev.starforge.cpu.machine.Instruction.VMOVDQU;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Assembles x86-64 machine code: the vector instructions of {@link Instruction} at one width, and the scalar
 * instructions that loops need. Vector registers are given by number; constants follow the code in the order of first
 * use. A test compares every encoding with a disassembler.
 */
final class Assembler {
    private static final int STORE = 0x7f; // opcode of VMOVDQU to memory
    private static final int ALIGNMENT = 64;

    final Width width;
    private final ByteArrayOutputStream code = new ByteArrayOutputStream();
    private final Map<List<Integer>, Integer> constants = new LinkedHashMap<>(); // vectors and their indices
    private final List<ConstantFixup> patches = new ArrayList<>();

    /** A RIP-relative displacement to a constant, resolved at the end: relative to the end of the instruction. */
    private record ConstantFixup(int at, int next, int constant) {}

    /** A memory operand. For a constant, {@code disp} is its index. */
    record Mem(Register base, int disp) {}

    Assembler(Width width) {
        this.width = width;
    }

    static Mem at(Register base, int disp) {
        return new Mem(base, disp);
    }

    /** Returns a constant vector that repeats these ints. */
    Mem constant(int... ints) {
        List<Integer> vector = new ArrayList<>();
        for (int i = 0; i < width.bytes / Integer.BYTES; i++) {
            vector.add(ints[i % ints.length]);
        }
        return new Mem(Register.RIP, constants.computeIfAbsent(vector, _ -> constants.size() * width.bytes));
    }

    Mem floats(float value) {
        return constant(Float.floatToRawIntBits(value));
    }

    /** Returns code and constants, to be placed at a multiple of 64 bytes. */
    byte[] assemble() {
        int from = (code.size() + ALIGNMENT - 1) & -ALIGNMENT;
        ByteBuffer out =
                ByteBuffer.allocate(from + constants.size() * width.bytes).order(ByteOrder.LITTLE_ENDIAN);
        out.put(code.toByteArray());
        for (ConstantFixup patch : patches) {
            out.putInt(patch.at, from + patch.constant - patch.next);
        }
        out.position(from);
        constants.keySet().forEach(vector -> vector.forEach(out::putInt));
        return out.array();
    }

    // Vectors.

    void load(int to, Mem from) {
        op(VMOVDQU, to, from);
    }

    void store(Mem to, int from) {
        memory(VMOVDQU, STORE, from, 0, 0, to, 0);
    }

    void op(Instruction op, int to, int from) {
        registers(op, to, 0, from, 0);
    }

    void op(Instruction op, int to, Mem from) {
        memory(op, op.opcode, to, 0, 0, from, 0);
    }

    void op(Instruction op, int to, int a, int b) {
        registers(op, to, a, b, 0);
    }

    void op(Instruction op, int to, int a, Mem b) {
        memory(op, op.opcode, to, a, 0, b, 0);
    }

    /** Merge-masking: lanes with a zero mask bit keep the value of {@code to}. */
    void masked(Instruction op, int mask, int to, int a, Mem b) {
        memory(op, op.opcode, to, a, mask, b, 0);
    }

    void op(Instruction op, int to, int a, int b, int immediate) {
        registers(op, to, a, b, 0);
        code.write(immediate);
    }

    void op(Instruction op, int to, int a, Mem b, int immediate) {
        memory(op, op.opcode, to, a, 0, b, 1);
        code.write(immediate);
    }

    void shift(Instruction op, int to, int from, int bits) {
        registers(op, op.detail, to, from, 0);
        code.write(bits);
    }

    void vzeroupper() {
        bytes(0xc5, 0xf8, 0x77);
    }

    private void registers(Instruction op, int reg, int vvvv, int rm, int mask) {
        prefix(op, reg, vvvv, rm >> 3 & 1, rm >> 4, mask);
        bytes(op.opcode, 0xc0 | (reg & 7) << 3 | rm & 7);
    }

    private void memory(Instruction op, int opcode, int reg, int vvvv, int mask, Mem mem, int immediates) {
        prefix(op, reg, vvvv, mem.base == Register.RIP ? 0 : mem.base.number >> 3, 0, mask);
        code.write(opcode);
        address(reg, mem, width == Width.ZMM ? op.bytes(width) : 1, immediates);
    }

    /** Emits a 3-byte VEX or a 4-byte EVEX prefix, including the inverted fields. */
    private void prefix(Instruction op, int reg, int vvvv, int b, int x, int mask) {
        int rxb = (~reg >> 3 & 1) << 7 | (~x & 1) << 6 | (~b & 1) << 5;
        if (width == Width.ZMM) {
            bytes(0x62, rxb | (~reg >> 4 & 1) << 4 | op.map);
            bytes((~vvvv & 15) << 3 | 4 | op.prefixBits(), 2 << 5 | (~vvvv >> 4 & 1) << 3 | mask);
        } else {
            bytes(0xc4, rxb | op.map, (~vvvv & 15) << 3 | 1 << 2 | op.prefixBits());
        }
    }

    /**
     * Emits ModRM and displacement; EVEX scales an 8-bit displacement by the operand size. No base register used here
     * needs a SIB byte.
     */
    private void address(int reg, Mem mem, int unit, int immediates) {
        int fields = (reg & 7) << 3 | mem.base.number & 7;
        if (mem.base == Register.RIP) {
            code.write(fields);
            patches.add(new ConstantFixup(code.size(), code.size() + Integer.BYTES + immediates, mem.disp));
            dword(0);
        } else if (mem.disp % unit == 0 && mem.disp / unit == (byte) (mem.disp / unit)) {
            bytes(1 << 6 | fields, mem.disp / unit);
        } else {
            code.write(2 << 6 | fields);
            dword(mem.disp);
        }
    }

    // General registers.

    void mov(Register to, Register from) {
        rex(from, to);
        bytes(0x89, 0xc0 | (from.number & 7) << 3 | to.number & 7);
    }

    void mov(Register to, int value) {
        rex(Register.RAX, to);
        bytes(0xc7, 0xc0 | to.number & 7);
        dword(value);
    }

    void add(Register to, Register from) {
        rex(from, to);
        bytes(0x01, 0xc0 | (from.number & 7) << 3 | to.number & 7);
    }

    void add(Register to, int value) {
        rex(Register.RAX, to);
        bytes(0x81, 0xc0 | to.number & 7);
        dword(value);
    }

    /** Decrements the counter and jumps to {@code loop} unless it is zero. */
    void repeat(Register count, int loop) {
        rex(Register.RAX, count);
        bytes(0xff, 0xc8 | count.number & 7);
        bytes(0x0f, 0x85);
        dword(loop - (code.size() + Integer.BYTES));
    }

    /** Returns the position of the next instruction, for {@link #repeat}. */
    int here() {
        return code.size();
    }

    void ret() {
        code.write(0xc3);
    }

    private void rex(Register reg, Register rm) {
        code.write(0x48 | reg.number >> 3 << 2 | rm.number >> 3);
    }

    private void bytes(int... bytes) {
        for (int b : bytes) {
            code.write(b);
        }
    }

    private void dword(int value) {
        bytes(value, value >> 8, value >> 16, value >> 24);
    }
}
