package dev.starforge.cpu.machine;

import java.lang.foreign.MemorySegment;

/** A kernel of {@link DotKernel}, behind checks of everything that it reads and writes. */
public final class DotProduct {
    private final Kernel kernel;
    private final long rowBytes;
    private final long xBytes;
    private final long chainBytes;

    DotProduct(Kernel kernel, long rowBytes, long xBytes, long chainBytes) {
        this.kernel = kernel;
        this.rowBytes = rowBytes;
        this.xBytes = xBytes;
        this.chainBytes = chainBytes;
    }

    /** The chains of {@code rows} rows at {@code wAt} with the x at {@code xAt}. */
    public void run(
            MemorySegment w, long wAt, int rows, MemorySegment x, long xAt, MemorySegment chains, long chainsAt) {
        if (rows <= 0) {
            throw new IllegalArgumentException("machine code: " + rows + " rows");
        }
        kernel.call(
                MachineCode.address(w, wAt, rows * rowBytes),
                MachineCode.address(x, xAt, xBytes),
                MachineCode.address(chains, chainsAt, rows * chainBytes),
                rows,
                0,
                0);
    }
}
