package dev.starforge.tensor;

/**
 * Which element types a run uses, chosen once. Norm statistics, softmax, routing scores, logits, LoRA master weights and
 * the gradients of these weights are float32 whatever is chosen here, and float32 never means TF32. Arithmetic is float32
 * in any case: a 16-bit type says what an operation's result is rounded to.
 *
 * @param storage weights; in a quantized type rows that are not whole blocks stay float32
 * @param asStored whether weights keep the type they have in their file instead, where the device computes with it
 * @param compute products and activations inside a block
 * @param int8Activations whether a product with quantized weights may round its activations to eight bits, where that is
 *     faster: for generating text, never for training
 * @param residual the stream between blocks
 * @param kv cached keys and values; I8 has a scale for every row and head
 * @param gradient gradients of 16-bit activations; those of float32 ones are float32, but for products of 16-bit factors, as
 *     logits and routing scores are: their gradients have the type of the factors
 * @param optimizer optimizer state
 * @param rotary what rotary frequencies are rounded to; F32 is right, the others reproduce runs of programs that cast
 *     them along with the weights
 */
public record Precision(
        DType storage,
        boolean asStored,
        DType compute,
        boolean int8Activations,
        DType residual,
        DType kv,
        DType gradient,
        DType optimizer,
        DType rotary) {
    public static final Precision FLOAT32 = of(DType.F32);

    public Precision {
        if (!storage.isWeight()) {
            throw new ShapeException("precision: weights " + storage + ": expected a float or a quantized type");
        }
        float16OrWider("compute", compute);
        float16OrWider("residual", residual);
        if (kv != DType.I8) {
            float16OrWider("KV cache", kv);
        }
        float16OrWider("gradient", gradient);
        float16OrWider("rotary frequencies", rotary);
        if (optimizer != DType.F32) {
            throw new ShapeException("precision: optimizer " + optimizer + ": only F32 is supported");
        }
    }

    /** Weights, activations, their gradients and the KV cache in one type. */
    public static Precision of(DType type) {
        return new Precision(type, false, type, false, type, type, type, DType.F32, DType.F32);
    }

    private static void float16OrWider(String what, DType type) {
        if (!type.isFloat()) {
            throw new ShapeException("precision: " + what + " " + type + ": expected F32, F16 or BF16");
        }
    }

    public Precision withStorage(DType type) {
        return new Precision(type, asStored, compute, int8Activations, residual, kv, gradient, optimizer, rotary);
    }

    /** Weights in the type of their file where the device computes with it, in {@link #storage} elsewhere. */
    public Precision withWeightsAsStored() {
        return new Precision(storage, true, compute, int8Activations, residual, kv, gradient, optimizer, rotary);
    }

    public Precision withInt8Activations(boolean allowed) {
        return new Precision(storage, asStored, compute, allowed, residual, kv, gradient, optimizer, rotary);
    }

    public Precision withResidual(DType type) {
        return new Precision(storage, asStored, compute, int8Activations, type, kv, gradient, optimizer, rotary);
    }

    public Precision withKv(DType type) {
        return new Precision(storage, asStored, compute, int8Activations, residual, type, gradient, optimizer, rotary);
    }

    public Precision withRotary(DType type) {
        return new Precision(storage, asStored, compute, int8Activations, residual, kv, gradient, optimizer, type);
    }
}
