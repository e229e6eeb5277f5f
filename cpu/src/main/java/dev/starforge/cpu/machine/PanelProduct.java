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

    /** A position in a segment, in bytes. */
    public record At(MemorySegment segment, long offset) {}

    /**
     * Computes y[token][32] for {@code blocks} blocks of a panel.
     *
     * @param x tiles of tokens, group by group: quantized values of each token, their scales, their biases or sums
     * @param yStep bytes from a token's y to the next one's
     * @param scales decoded scales of planar types, 32 per block; otherwise {@link PanelFormat#SCALES} bytes of scratch
     */
    public void run(At w, At x, At y, long yStep, int blocks, At scales) {
        long weights = address(w, (long) blocks * format.bytes());
        long activations = address(x, (long) blocks * format.groups() * tokens * format.activationBytes());
        long to = address(y, (tokens - 1) * yStep + ROW_BYTES);
        long decoded = address(scales, format.planar() ? (long) blocks * ROW_BYTES : PanelFormat.SCALES);
        if (blocks <= 0 || yStep < ROW_BYTES) {
            throw new IllegalArgumentException("machine code: " + blocks + " blocks, tokens " + yStep + " bytes apart");
        }
        for (int lanes = 0; lanes < Panels.ROWS * Short.BYTES; lanes += width.bytes) {
            kernel.call(weights + lanes, activations, to + lanes, blocks, decoded + lanes, yStep);
        }
    }

    private static long address(At at, long bytes) {
        return MachineCode.address(at.segment, at.offset, bytes);
    }
}
