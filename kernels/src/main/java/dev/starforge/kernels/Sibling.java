package dev.starforge.kernels;

/** Kernels for the matrix instructions of some devices. The portable kernels compute the same operations without them. */
public enum Sibling {
    /** mma.sync: gemv, small_batch_gemm, decode_attention, flash_attention and flash_attention_grad. */
    MMA,

    /** wgmma of Hopper: flash_attention_sm90 and flash_attention_grad_sm90. */
    WGMMA
}
