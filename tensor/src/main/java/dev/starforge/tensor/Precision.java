package dev.starforge.tensor;

/**
 * Which element types a run uses, chosen once. Norm statistics, softmax, logits, LoRA master weights and their gradients
 * are float32 whatever is chosen here, and float32 never means TF32.
 *
 * @param storage weights; in a block type rows that are not whole blocks stay float32
 * @param asStored whether weights keep the type they have in their file instead, where the device computes with it
 * @param compute products and activations inside a block
 * @param residual the stream between blocks
 * @param kv cached keys and values
 * @param gradient activation gradients
 * @param optimizer optimizer state
 * @param rotary what rotary frequencies are rounded to; F32 is right, the others reproduce runs of programs that cast
 *     them along with the weights
 */
public record Precision(
        DType storage,
        boolean asStored,
        DType compute,
        DType residual,
        DType kv,
        DType gradient,
        DType optimizer,
        DType rotary) {
    public static final Precision FLOAT32 =
            new Precision(DType.F32, false, DType.F32, DType.F32, DType.F32, DType.F32, DType.F32, DType.F32);

    public Precision {
        if (!storage.isWeight() || !kv.isFloat() || !rotary.isFloat()) {
            throw new ShapeException("precision: weights " + storage + ", cache " + kv + " and rotary frequencies "
                    + rotary + " must be float types; weights alone may be quantized");
        }
        if (compute != DType.F32 || residual != DType.F32 || gradient != DType.F32 || optimizer != DType.F32) {
            throw new ShapeException("precision: compute " + compute + ", residual " + residual + ", gradient "
                    + gradient + ", optimizer " + optimizer + ": only F32 is supported for these");
        }
    }

    public Precision withStorage(DType type) {
        return new Precision(type, asStored, compute, residual, kv, gradient, optimizer, rotary);
    }

    /** Weights in the type of their file where the device computes with it, in {@link #storage} elsewhere. */
    public Precision withWeightsAsStored() {
        return new Precision(storage, true, compute, residual, kv, gradient, optimizer, rotary);
    }

    public Precision withKv(DType type) {
        return new Precision(storage, asStored, compute, residual, type, gradient, optimizer, rotary);
    }

    public Precision withRotary(DType type) {
        return new Precision(storage, asStored, compute, residual, kv, gradient, optimizer, type);
    }
}
