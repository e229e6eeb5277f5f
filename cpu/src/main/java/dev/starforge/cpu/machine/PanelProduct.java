package dev.starforge.cpu.machine;

import dev.starforge.cpu.core.Panels;
import java.lang.foreign.MemorySegment;

/** Calls a kernel of {@link PanelKernel} after checking the bounds of all memory accesses. */
public final class PanelProduct {
    private static final int ROW_BYTES = Panels.ROWS * Float.BYTES;

    private final MachineKernel kernel;
    private final PanelFormat format;
    private final int tokens;
    private final Width width;

    PanelProduct(MachineKernel kernel, PanelFormat format, int tokens, Width width) {
        this.kernel = kernel;
        this.format = format;
        this.tokens = tokens;
        this.width = width;
    }

    /**
     * Computes y[token][32] for {@code blocks} blocks of a panel at {@code wAt}.
     *
     * @param x tiles of tokens, group by group: quantized values of each token, their scales, their biases or sums
     * @param yStep bytes from a token's y to the next one's
     * @param scales decoded scales of planar types, 32 per block; otherwise {@link PanelFormat#SCALES} bytes of scratch
     */
    public void run(
            MemorySegment w,
            long wAt,
            MemorySegment x,
            long xAt,
            MemorySegment y,
            long yAt,
            long yStep,
            int blocks,
            MemorySegment scales,
            long scalesAt) {
        long weights = MachineCode.address(w, wAt, (long) blocks * format.bytes());
        long activations =
                MachineCode.address(x, xAt, (long) blocks * format.groups() * tokens * format.activationBytes());
        long to = MachineCode.address(y, yAt, (tokens - 1) * yStep + ROW_BYTES);
        long scaleBytes = format.planar() ? (long) blocks * ROW_BYTES : PanelFormat.SCALES;
        long decoded = MachineCode.address(scales, scalesAt, scaleBytes);
        if (blocks <= 0 || yStep < ROW_BYTES) {
            throw new IllegalArgumentException("machine code: " + blocks + " blocks, tokens " + yStep + " bytes apart");
        }
        for (int lanes = 0; lanes < Panels.ROWS * Short.BYTES; lanes += width.bytes) {
            kernel.call(weights + lanes, activations, to + lanes, blocks, decoded + lanes, yStep);
        }
    }
}
