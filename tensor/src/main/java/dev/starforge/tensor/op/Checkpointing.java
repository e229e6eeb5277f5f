package dev.starforge.tensor.op;

/** Which activations of a block {@link Tape} keeps for the backward pass; it recomputes the others. */
public enum Checkpointing {
    /** Keeps all activations that gradients read. */
    OFF,
    /**
     * Keeps the outputs of products and attention (Korthikanti et al. 2022); recomputes norms and activation functions, which
     * are large and cheap.
     */
    SELECTIVE,
    /** Keeps only the block's input (Chen et al. 2016). */
    FULL
}
