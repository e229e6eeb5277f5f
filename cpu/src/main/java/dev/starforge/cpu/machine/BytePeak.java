package dev.starforge.cpu.machine;

import static dev.starforge.cpu.machine.Instruction.VPADDD;
import static dev.starforge.cpu.machine.Instruction.VPDPBUSD;
import static dev.starforge.cpu.machine.Instruction.VPMADDUBSW;
import static dev.starforge.cpu.machine.Instruction.VPMADDWD;
import static dev.starforge.cpu.machine.Register.RDI;

/** A loop of int8 dot products only: the peak throughput for the prefill benchmark. */
public final class BytePeak {
    private static final int CHAINS = 10;

    private final MachineKernel kernel;
    private final Width width;

    BytePeak(MachineKernel kernel, Width width) {
        this.kernel = kernel;
        this.width = width;
    }

    static byte[] assemble(Width width) {
        Assembler a = new Assembler(width);
        int w = CHAINS;
        int x = CHAINS + 1;
        int product = CHAINS + 2;
        int loop = a.here();
        for (int chain = 0; chain < CHAINS; chain++) {
            if (width == Width.ZMM) {
                a.op(VPDPBUSD, chain, w, x);
            } else {
                a.op(VPMADDUBSW, product, w, x);
                a.op(VPMADDWD, product, product, a.constant(0x00010001));
                a.op(VPADDD, chain, chain, product);
            }
        }
        a.repeat(RDI, loop);
        a.vzeroupper();
        a.ret();
        return a.assemble();
    }

    public void run(int iterations) {
        if (iterations <= 0) {
            throw new IllegalArgumentException("machine code: " + iterations + " iterations");
        }
        kernel.call(iterations, 0, 0, 0, 0, 0);
    }

    /** Returns the number of multiplications and additions in {@code iterations} iterations. */
    public long operations(int iterations) {
        return 2L * iterations * CHAINS * width.bytes;
    }
}
