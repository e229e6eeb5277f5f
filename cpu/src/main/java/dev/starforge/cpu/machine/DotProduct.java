package dev.starforge.cpu.machine;

import java.lang.foreign.MemorySegment;

/** Calls a kernel of {@link DotKernel} after checking the bounds of all memory accesses. */
public final class DotProduct {
    private final MachineKernel several;
    private final int together;
    private final MachineKernel single;
    private final long rowBytes;
    private final long xBytes;
    private final long chainBytes;

    DotProduct(MachineKernel several, int together, MachineKernel single, long rowBytes, long xBytes, long chainBytes) {
        this.several = several;
        this.together = together;
        this.single = single;
        this.rowBytes = rowBytes;
        this.xBytes = xBytes;
        this.chainBytes = chainBytes;
    }

    /** Computes the chains of {@code rows} rows at {@code wAt} with the x at {@code xAt}. */
    public void run(
            MemorySegment w, long wAt, int rows, MemorySegment x, long xAt, MemorySegment chains, long chainsAt) {
        if (rows <= 0) {
            throw new IllegalArgumentException("machine code: " + rows + " rows");
        }
        long from = MachineCode.address(w, wAt, rows * rowBytes);
        long with = MachineCode.address(x, xAt, xBytes);
        long to = MachineCode.address(chains, chainsAt, rows * chainBytes);
        int left = rows % together;
        int done = rows - left;
        if (done > 0) {
            several.call(from, with, to, done / together, 0, 0);
        }
        if (left > 0) {
            single.call(from + done * rowBytes, with, to + done * chainBytes, left, 0, 0);
        }
    }
}
