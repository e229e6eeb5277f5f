package dev.starforge.tensor.op;

/** What a {@link Tape} keeps of a block for the backward pass; what it does not keep, it computes again. */
public enum Checkpointing {
    /** Everything that a gradient reads. */
    OFF,
    /**
     * What would take a product or attention to compute again (Korthikanti et al. 2022); norms and activations, which are
     * large and cheap, run a second time.
     */
    SELECTIVE,
    /** The block's input alone (Chen et al. 2016). */
    FULL
}
