package dev.starforge.cpu.machine;

import java.lang.foreign.MemorySegment;

/** Calls a kernel of {@link TileKernel} after checking the bounds of all memory accesses. */
public final class TileProduct {
    private final MachineKernel kernel;
    private final int depth;
    private final int rowBytes;
    private final int panelBytes;
    private final int lanes; // bytes of a panel per call

    TileProduct(MachineKernel kernel, int depth, int rowBytes, int panelBytes, int lanes) {
        this.kernel = kernel;
        this.depth = depth;
        this.rowBytes = rowBytes;
        this.panelBytes = panelBytes;
        this.lanes = lanes;
    }

    /**
     * Adds to the sums at {@code to} the product of {@code tiles} tiles of six rows at {@code u} with the panel at
     * {@code v}; offsets are in floats of {@code s}.
     */
    public void run(float[] s, int u, int v, int to, int tiles) {
        run(MemorySegment.ofArray(s), 4L * u, 4L * v, 4L * to, tiles);
    }

    void run(MemorySegment s, long u, long v, long to, int tiles) {
        long rows = (long) TileKernel.ROWS * tiles;
        long rowsEnd = (rows - 1) * rowBytes + 4L * depth;
        if (tiles <= 0
                || u < 0
                || v < 0
                || to < 0
                || u > s.byteSize() - rowsEnd
                || v > s.byteSize() - (long) depth * panelBytes
                || to > s.byteSize() - rows * panelBytes) {
            throw new IndexOutOfBoundsException("machine code: " + tiles + " tiles with rows at " + u + ", a panel at "
                    + v + " and sums at " + to + " of " + s.byteSize() + " bytes");
        }
        for (int lane = 0; lane < panelBytes; lane += lanes) {
            kernel.callHeap(s, u, v + lane, to + lane, tiles);
        }
    }
}
