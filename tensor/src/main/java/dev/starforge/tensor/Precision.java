package dev.starforge.tensor;

/**
 * Which element types a run uses, chosen once. Norm statistics, softmax, logits, LoRA master weights and their gradients
 * are float32 whatever is chosen here, and float32 never means TF32.
 *
 * @param storage weights
 * @param compute products and activations inside a block
 * @param residual the stream between blocks
 * @param kv cached keys and values
 * @param gradient activation gradients
 * @param optimizer optimizer state
 * @param rotary what rotary frequencies are rounded to; F32 is right, the others reproduce runs of programs that cast
 *     them along with the weights
 */
public record Precision(
        DType storage, DType compute, DType residual, DType kv, DType gradient, DType optimizer, DType rotary) {
    public static final Precision FLOAT32 =
            new Precision(DType.F32, DType.F32, DType.F32, DType.F32, DType.F32, DType.F32, DType.F32);

    public Precision {
        if (!storage.isFloat() || !kv.isFloat() || !rotary.isFloat()) {
            throw new ShapeException("precision: weights " + storage + ", cache " + kv + " and rotary frequencies "
                    + rotary + " must be float types");
        }
        if (compute != DType.F32 || residual != DType.F32 || gradient != DType.F32 || optimizer != DType.F32) {
            throw new ShapeException("precision: compute " + compute + ", residual " + residual + ", gradient "
                    + gradient + ", optimizer " + optimizer + ": only F32 is supported for these");
        }
    }

    public Precision withStorage(DType type) {
        return new Precision(type, compute, residual, kv, gradient, optimizer, rotary);
    }

    public Precision withKv(DType type) {
        return new Precision(storage, compute, residual, type, gradient, optimizer, rotary);
    }

    public Precision withRotary(DType type) {
        return new Precision(storage, compute, residual, kv, gradient, optimizer, type);
    }
}
