package dev.starforge.cpu.machine;

import static dev.starforge.cpu.machine.Assembler.at;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Every instruction is what a disassembler takes it for, with low and high registers, near and far operands. */
class AssemblerTest {
    private static final Set<Instruction> NARROW =
            EnumSet.of(Instruction.VPSIGNB, Instruction.VPCMPEQB, Instruction.VBLENDVPS);
    private static final Set<Instruction> WIDE =
            EnumSet.of(Instruction.VPDPBUSD, Instruction.VDPBF16PS, Instruction.VPTERNLOGD, Instruction.VPTESTMB);

    @TempDir
    Path folder;

    @ParameterizedTest
    @EnumSource(Width.class)
    void vectorInstructionsDisassembleAsIntended(Width width) throws IOException, InterruptedException {
        Assembler a = new Assembler(width);
        List<String> meant = new ArrayList<>();
        int high = width.registers - 1;
        for (Instruction op : Instruction.values()) {
            if ((width == Width.ZMM ? NARROW : WIDE).contains(op)) {
                continue;
            }
            String name = op.mnemonic(width);
            String to = name(width, high);
            switch (op.form) {
                case TWO -> {
                    a.op(op, high, at(Register.R9, 0x80));
                    meant.add(name + " " + to + "," + memory(width, op) + "[r9+0x80]");
                    a.op(op, 2, at(Register.RSI, 0x1234));
                    meant.add(name + " " + name(width, 2) + "," + memory(width, op) + "[rsi+0x1234]");
                    if (op.bytes(width) == width.bytes) {
                        a.op(op, high, 5);
                        meant.add(name + " " + to + "," + name(width, 5));
                    }
                }
                case THREE -> {
                    a.op(op, high, 3, 9);
                    meant.add(name + " " + to + "," + name(width, 3) + "," + name(width, 9));
                    a.op(op, 1, high, at(Register.RDI, -0x40));
                    meant.add(name + " " + name(width, 1) + "," + to + "," + memory(width, op) + "[rdi-0x40]");
                }
                case SHIFT -> {
                    a.shift(op, high, 4, 13);
                    meant.add(name + " " + to + "," + name(width, 4) + ",0xd");
                }
                case BLEND -> {
                    a.op(op, high, 3, 9, 0x40);
                    String last = op == Instruction.VBLENDVPS ? name(width, 4) : "0x40";
                    meant.add(name + " " + to + "," + name(width, 3) + "," + name(width, 9) + "," + last);
                }
                case MASK -> {
                    a.op(op, 1, high, at(Register.R8, 0x40));
                    meant.add(name + " k1," + to + "," + memory(width, op) + "[r8+0x40]");
                }
            }
        }
        a.store(at(Register.R11, 0x40), high);
        meant.add(Instruction.VMOVDQU.mnemonic(width) + " " + memory(width, Instruction.VMOVDQU) + "[r11+0x40],"
                + name(width, high));
        a.vzeroupper();
        meant.add("vzeroupper");
        assertThat(read(a)).isEqualTo(meant);
    }

    @Test
    void scalarInstructionsDisassembleAsIntended() throws IOException, InterruptedException {
        Assembler a = new Assembler(Width.ZMM);
        a.masked(Instruction.VPADDB, 1, 20, 20, at(Register.RDX, 0x40));
        a.mov(Register.R10, Register.RDI);
        a.mov(Register.RAX, 7);
        a.add(Register.RSI, Register.R9);
        a.add(Register.R11, -0x1000);
        a.repeat(Register.RCX, 0);
        a.ret();
        assertThat(read(a))
                .containsExactly(
                        "vpaddb zmm20{k1},zmm20,ZMMWORD PTR [rdx+0x40]",
                        "mov r10,rdi",
                        "mov rax,0x7",
                        "add rsi,r9",
                        "add r11,0xfffffffffffff000",
                        "dec rcx",
                        "jne 0x0",
                        "ret");
    }

    /** The distance of a constant counts from the end of the instruction, whose last byte may follow the distance. */
    @Test
    void constantsFollowTheCode() throws IOException, InterruptedException {
        Assembler a = new Assembler(Width.ZMM);
        a.load(1, a.constant(7));
        a.op(Instruction.VPTERNLOGD, 2, 3, a.constant(9), 0xd8);
        a.op(Instruction.VPAND, 2, 3, a.constant(7));
        a.ret();
        List<String> read = read(a);
        assertThat(read.subList(0, 4))
                .containsExactly(
                        "vmovdqu32 zmm1,ZMMWORD PTR [rip+0x36] # 0x40",
                        "vpternlogd zmm2,zmm3,ZMMWORD PTR [rip+0x6b],0xd8 # 0x80",
                        "vpandd zmm2,zmm3,ZMMWORD PTR [rip+0x21] # 0x40",
                        "ret");
        byte[] code = a.assemble();
        assertThat(code).hasSize(64 + 2 * 64);
        assertThat(code[64]).isEqualTo((byte) 7);
        assertThat(code[128]).isEqualTo((byte) 9);
    }

    private static String name(Width width, int register) {
        return (width == Width.ZMM ? "zmm" : "ymm") + register;
    }

    private static String memory(Width width, Instruction op) {
        return switch (op.bytes(width)) {
            case 4 -> "DWORD PTR ";
            case 16 -> "XMMWORD PTR ";
            case 32 -> "YMMWORD PTR ";
            default -> "ZMMWORD PTR ";
        };
    }

    private List<String> read(Assembler a) throws IOException, InterruptedException {
        assumeTrue(Files.isExecutable(Path.of("/usr/bin/objdump")), "objdump is not installed");
        Path code = Files.write(folder.resolve("code"), a.assemble());
        Process process = new ProcessBuilder(
                        "/usr/bin/objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", code.toString())
                .redirectErrorStream(true)
                .start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as(said).isZero();
        return said.lines()
                .map(line -> line.split("\t"))
                .filter(parts -> parts.length > 2)
                .map(parts -> parts[2].strip().replaceAll("\\s+", " "))
                .filter(text -> !text.startsWith("add BYTE PTR [rax]") && !text.equals("..."))
                .toList();
    }
}
