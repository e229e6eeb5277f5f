package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.NullOps;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;

/**
 * What models call. Outputs are allocated in the current lifetime of the scope. An eager one computes, {@link Tape}
 * records as well, {@link NullOps} only measures: training is which Ops you pass, not a flag. One thread owns an Ops.
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
     * Runs a stretch of a model that turns one activation into the next, and gives everything else it allocated back.
     * Under a checkpointing tape the body runs again during backward, so it must depend on nothing but {@code x},
     * parameters and data that stay.
     */
    Tensor block(Tensor x, BiFunction<Ops, Tensor, Tensor> body);

    /** Runs blocks one after another; what one hands to the next is given back as soon as it is used. */
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

    /** Activations in another float type; x itself where they are. */
    default Tensor cast(Tensor x, DType to) {
        if (!x.dtype().isFloat()) {
            throw new ShapeException("cast: expected activations of a float type, got " + x);
        }
        return x.dtype() == to ? x : run(new Plain.Cast(to), x);
    }

    /** x[..., in] times a weight [out, in], in the type that the run computes in. */
    default Tensor project(Tensor x, Tensor weight) {
        return project(x, weight, precision().compute());
    }

    /** The same with a result of type {@code to}; both factors are in the run's type, but for a quantized weight. */
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

    /** A weight as products take it: one that is kept in float32, since it is trained, is rounded. */
    private Tensor computed(Tensor weight) {
        return weight.dtype() == DType.F32 ? cast(weight, precision().compute()) : weight;
    }

    default Tensor gather(Tensor table, Tensor rows) {
        return run(new Plain.Gather(), table, rows);
    }

    /** The rows of an embedding table, where the residual stream begins; training adds its noise here. */
    default Tensor embed(Tensor table, Tensor ids) {
        return cast(gather(table, ids), precision().residual());
    }

    /**
     * Where training drops elements of x[N, C], one row for each token of the batch; {@code site} tells this place from
     * all others. Elsewhere x itself.
     */
    default Tensor dropout(Tensor x, int site) {
        return x;
    }

    /** Which adapter of a table each token of the batch has, i32[N]; known where a model runs a batch. */
    default Tensor adapters() {
        throw new TensorException("adapters: these ops run no batch, so no row has an adapter; a model with a table of"
                + " adapters runs by Model.forward or Model.hidden");
    }

    /** y plus what each row's adapter adds to it, out of a table; see {@link Adapters.Lora}. */
    default Tensor lora(Tensor y, Tensor x, Tensor a, Tensor b, Tensor scales) {
        return run(new Adapters.Lora(), y, x, a, b, scales, adapters());
    }

    /** The same for rows of {@code tokens}, sorted by expert; see {@link Adapters.ExpertLora}. */
    default Tensor loraExperts(Tensor y, Tensor x, Tensor a, Tensor b, Tensor scales, Tensor tokens, Tensor offsets) {
        return run(new Adapters.ExpertLora(), y, x, a, b, scales, adapters(), tokens, offsets);
    }

    default void store(Tensor cache, Tensor rows, Tensor x) {
        runAll(new Plain.Store(), cache, rows, x);
    }

    /** The same in eight bits; see {@link Decoding.StoreInt8}. */
    default void storeInt8(Tensor codes, Tensor scales, Tensor rows, Tensor x) {
        runAll(new Decoding.StoreInt8(), codes, scales, rows, x);
    }

    /** What was stored in eight bits, codes[R, H, D] times scales[R, H], in float32. */
    default Tensor decoded(Tensor codes, Tensor scales) {
        Shape heads = Shape.of(scales.shape().size(), codes.shape().last());
        Tensor wide = run(new Plain.Cast(DType.F32), reshape(codes, heads));
        return reshape(mul(wide, reshape(scales, Shape.of(heads.dim(0), 1))), codes.shape());
    }

    default Tensor layerNorm(Tensor x, Tensor w, Tensor b, float eps) {
        return run(new Fused.LayerNorm(eps), x, w, b);
    }

    default Tensor rmsNorm(Tensor x, Tensor w, float eps) {
        return run(new Fused.RmsNorm(eps), x, w);
    }

    /** A residual stream and what the next layer reads of it. */
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

    /** Zero rows of {@code width} with x from column {@code from} on. */
    default Tensor pad(Tensor x, long from, long width) {
        return run(new Plain.Pad(from, width), x);
    }

    /** Reorders dimensions: output axis i is input axis {@code axes[i]}. */
    default Tensor permute(Tensor x, Integer... axes) {
        return run(Plain.Permute.of(axes), x);
    }

    /** [N, H * D] seen as [N, H, D]. */
    default Tensor splitHeads(Tensor x, int heads) {
        return reshape(x, Shape.of(x.dim(0), heads, x.dim(1) / heads));
    }

    /** [N, H, D] seen as [N, H * D]. */
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
