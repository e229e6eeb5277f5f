package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;

/**
 * The operations that models call. Outputs are allocated in the current lifetime of the scope. {@code EagerOps} computes,
 * {@link Tape} also records for the backward pass, {@code NullOps} computes shapes only: whether a model trains depends on the
 * Ops passed to it, not on a flag. Not thread-safe: one thread owns an Ops.
 */
public interface Ops {
    /** Runs an operation and returns all its outputs. */
    Tensor[] runAll(Op op, Tensor... in);

    /** Runs an operation and returns its first output. */
    default Tensor run(Op op, Tensor... in) {
        return runAll(op, in)[0];
    }

    /** The same elements in another shape. */
    Tensor reshape(Tensor x, Shape shape);

    /**
     * Runs part of a model, usually a transformer block, and frees everything it allocated except its result. With
     * activation checkpointing the body runs again during backward, so it may depend only on {@code x}, parameters and data
     * that do not change.
     */
    Tensor block(Tensor x, BiFunction<Ops, Tensor, Tensor> body);

    /** Runs blocks one after another and frees each intermediate activation after its use. */
    default Tensor chain(Tensor x, List<BiFunction<Ops, Tensor, Tensor>> blocks) {
        Tensor y = x;
        for (BiFunction<Ops, Tensor, Tensor> block : blocks) {
            Tensor next = block(y, block);
            if (y.storage() != x.storage() && y.storage() != next.storage()) {
                scope().disown(y);
            }
            y = next;
        }
        return y;
    }

    Scope scope();

    /** Returns ops for the same device and precision that compute shapes only, in a scope of their own. */
    Ops shapesOnly();

    Precision precision();

    default Tensor add(Tensor a, Tensor b) {
        return run(new Plain.Add(), a, b);
    }

    default Tensor mul(Tensor a, Tensor b) {
        return run(new Plain.Mul(), a, b);
    }

    default Tensor scale(Tensor x, float by) {
        return run(new Plain.Affine(by, 0), x);
    }

    default Tensor map(Fn fn, Tensor x) {
        return run(new Plain.Map(fn), x);
    }

    /** Casts activations to another float type; returns x if it has that type. */
    default Tensor cast(Tensor x, DType to) {
        if (!x.dtype().isFloat()) {
            throw new ShapeException("cast: expected activations of a float type, got " + x);
        }
        return x.dtype() == to ? x : run(new Plain.Cast(to), x);
    }

    /** x[..., in] times a weight [out, in], in the compute type. */
    default Tensor project(Tensor x, Tensor weight) {
        return project(x, weight, precision().compute());
    }

    /** x[..., in] times a weight [out, in], with a result of type {@code to}. Both factors have the compute type, unless the weight is quantized. */
    default Tensor project(Tensor x, Tensor weight, DType to) {
        Op product = new Plain.MatMul(false, true, to, precision().int8Activations());
        return run(product, cast(x, precision().compute()), computed(weight));
    }

    /**
     * x through weights [out, in] in one pass, with what follows in the same one; {@code rest} are biases and the residual, as
     * {@link Layers.Linear} has them, and factors are of the types that {@link #project} takes.
     */
    default List<Tensor> linear(Layers.Linear op, Tensor x, List<Tensor> weights, List<Tensor> rest) {
        List<Tensor> in = new ArrayList<>(List.of(cast(x, precision().compute())));
        weights.forEach(weight -> in.add(computed(weight)));
        in.addAll(rest);
        return List.of(runAll(op, in.toArray(Tensor[]::new)));
    }

    /** Each expert's own x times its weight of [E, out, in]; rows of an expert are where {@code offsets} say. */
    default Tensor projectExperts(Tensor x, Tensor weights, Tensor offsets) {
        Op product = new Routing.ExpertMatMul(
                true, precision().compute(), precision().int8Activations());
        return run(product, cast(x, precision().compute()), computed(weights), offsets);
    }

    /** Casts a float32 master weight to the compute type; other weights are used as stored. */
    private Tensor computed(Tensor weight) {
        return weight.dtype() == DType.F32 ? cast(weight, precision().compute()) : weight;
    }

    default Tensor gather(Tensor table, Tensor rows) {
        return run(new Plain.Gather(), table, rows);
    }

    /** Looks up rows of an embedding table, in the residual type; NEFTune noise is added here in training. */
    default Tensor embed(Tensor table, Tensor ids) {
        return cast(gather(table, ids), precision().residual());
    }

    /**
     * Applies dropout to x[N, C], one row for each token of the batch, in training; otherwise returns x. {@code site} is the
     * number of this dropout in the model, part of the key of its random numbers.
     */
    default Tensor dropout(Tensor x, int site) {
        return x;
    }

    /** The adapter of each token of the batch as an index into the adapter table, i32[N]. Only available while a model runs a batch. */
    default Tensor adapters() {
        throw new TensorException("adapters: no batch is running, so rows have no adapter; a model with a table of"
                + " adapters runs by Model.forward or Model.hiddenStates");
    }

    /** Adds the low-rank update of each row's adapter to y; see {@link Adapters.Lora}. */
    default Tensor lora(Tensor y, Tensor x, Tensor a, Tensor b, Tensor scales) {
        return run(new Adapters.Lora(), y, x, a, b, scales, adapters());
    }

    /** Adds low-rank updates to rows sorted by expert; see {@link Adapters.ExpertLora}. */
    default Tensor loraExperts(Tensor y, Tensor x, Tensor a, Tensor b, Tensor scales, Tensor tokens, Tensor offsets) {
        return run(new Adapters.ExpertLora(), y, x, a, b, scales, adapters(), tokens, offsets);
    }

    default void store(Tensor cache, Tensor rows, Tensor x) {
        runAll(new Plain.Store(), cache, rows, x);
    }

    /** Stores rows as int8 with scales; see {@link Decoding.StoreInt8}. */
    default void storeInt8(Tensor values, Tensor scales, Tensor rows, Tensor x) {
        runAll(new Decoding.StoreInt8(), values, scales, rows, x);
    }

    /** Dequantizes an int8 cache to float32: values[R, H, D] * scales[R, H]. */
    default Tensor decoded(Tensor values, Tensor scales) {
        Shape heads = Shape.of(scales.shape().size(), values.shape().last());
        Tensor wide = run(new Plain.Cast(DType.F32), reshape(values, heads));
        return reshape(mul(wide, reshape(scales, Shape.of(heads.dim(0), 1))), values.shape());
    }

    default Tensor layerNorm(Tensor x, Tensor w, Tensor b, float eps) {
        return run(new Fused.LayerNorm(eps), x, w, b);
    }

    default Tensor rmsNorm(Tensor x, Tensor w, float eps) {
        return run(new Fused.RmsNorm(eps), x, w);
    }

    /** A residual stream and its norm, the input of the next layer. */
    record Residual(Tensor stream, Tensor norm) {}

    /** x + y and its norm. */
    default Residual addLayerNorm(Tensor x, Tensor y, Tensor w, Tensor b, float eps) {
        Tensor[] out = runAll(new Layers.AddLayerNorm(eps), x, y, w, b);
        return new Residual(out[0], out[1]);
    }

    /** x + y and its norm. */
    default Residual addRmsNorm(Tensor x, Tensor y, Tensor w, float eps) {
        Tensor[] out = runAll(new Layers.AddRmsNorm(eps), x, y, w);
        return new Residual(out[0], out[1]);
    }

    default Tensor rope(Tensor x, Tensor positions, Tensor frequencies, float magnitude) {
        return run(new Fused.Rope(magnitude, false), x, positions, frequencies);
    }

    default Tensor gated(Fn fn, Tensor gate, Tensor up) {
        return run(new Fused.Gated(fn), gate, up);
    }

    /** Columns from..to-1 of the last dimension. */
    default Tensor columns(Tensor x, long from, long to) {
        return run(new Plain.Columns(from, to), x);
    }

    /** Pads x with zero columns to {@code width}, starting at column {@code from}. */
    default Tensor pad(Tensor x, long from, long width) {
        return run(new Plain.Pad(from, width), x);
    }

    /** Reorders dimensions: output axis i is input axis {@code axes[i]}. */
    default Tensor permute(Tensor x, Integer... axes) {
        return run(Plain.Permute.of(axes), x);
    }

    /** Views [N, H * D] as [N, H, D]. */
    default Tensor splitHeads(Tensor x, int heads) {
        return reshape(x, Shape.of(x.dim(0), heads, x.dim(1) / heads));
    }

    /** Views [N, H, D] as [N, H * D]. */
    default Tensor joinHeads(Tensor x) {
        return reshape(x, Shape.of(x.dim(0), x.dim(1) * x.dim(2)));
    }

    /** Attention of q over cached keys and values, as {@code batch} lays them out. */
    default Tensor attend(Tensor q, Tensor k, Tensor v, Batch batch, float scale, int window) {
        return run(
                new Fused.Attention(scale, window, batch.block()),
                q,
                k,
                v,
                batch.starts(),
                batch.positions(),
                batch.tables());
    }

    /** The sum of the weighted token losses, as [1]. */
    default Tensor crossEntropy(Tensor logits, Tensor labels, Tensor weights) {
        Tensor losses = run(new Fused.CrossEntropy(), logits, labels, weights);
        return run(new Plain.Sum(Plain.Sum.Over.LAST), losses);
    }
}
