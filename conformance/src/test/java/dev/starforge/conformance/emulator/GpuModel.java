package dev.starforge.conformance.emulator;

import dev.starforge.kernels.Sibling;
import java.util.Set;

/**
 * The capabilities of an emulated GPU, from which dispatch chooses kernels.
 *
 * @param siblings the kernels that it runs besides the portable ones
 * @param sharedLimit bytes of shared memory that a group may have
 * @param multiprocessors few, so that a group loops over several tiles, or many, so that groups split K
 */
public record GpuModel(Set<Sibling> siblings, int sharedLimit, int multiprocessors) {
    public static final GpuModel AMPERE = new GpuModel(Set.of(Sibling.MMA), 99 << 10, 1);

    public static final GpuModel HOPPER = new GpuModel(Set.of(Sibling.MMA, Sibling.WGMMA), 227 << 10, 64);

    /** An Apple GPU: portable kernels alone, with subnormals flushed to zero. */
    public static final GpuModel APPLE = new GpuModel(Set.of(), 32 << 10, 1);
}
