package dev.starforge.model.layer;

import dev.starforge.tensor.Ops;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.util.List;

/**
 * The gated MLPs of a mixture of experts, stacked (Shazeer et al. 2017). Every choice of a token is a row: rows are sorted
 * by expert, each expert multiplies its run, and the weighted results are added back to their tokens in the order of the
 * experts. The number of rows is tokens times choices whatever was chosen.
 *
 * @param gate [experts, inner, width]
 * @param up [experts, inner, width]
 * @param down [experts, width, inner]
 * @param gateUpUpdates what an adapter adds to gate and up, one beside the other
 * @param downUpdates what an adapter adds to down
 */
public record ExpertStack(Tensor gate, Tensor up, Tensor down, List<Lora> gateUpUpdates, List<Lora> downUpdates) {
    /**
     * A low-rank update of a stack as PEFT lays it out.
     *
     * @param a [experts * rank, in], expert by expert
     * @param b [out, rank * experts], the expert's number running fastest
     */
    public record Lora(Tensor a, Tensor b, int experts, float scale) {
        Tensor apply(Ops ops, Tensor x, Tensor offsets) {
            long rank = a.dim(0) / experts;
            Tensor downs = ops.reshape(a, Shape.of(experts, rank, a.dim(1)));
            Tensor ups = ops.permute(ops.reshape(b, Shape.of(b.dim(0), rank, experts)), 2, 0, 1);
            return ops.scale(ops.projectExperts(ops.projectExperts(x, downs, offsets), ups, offsets), scale);
        }
    }

    /** x[N, C] through the experts {@code chosen} i32[N, k], weighted by {@code weights} [N, k]. */
    public Tensor forward(Ops ops, Tensor x, Tensor chosen, Tensor weights) {
        Tensor[] groups = ops.runAll(new Routing.Group((int) gate.dim(0)), chosen);
        Tensor order = groups[0];
        Tensor tokens = groups[1];
        Tensor offsets = groups[2];
        Tensor rows = ops.gather(x, tokens);
        Tensor g = ops.projectExperts(rows, gate, offsets);
        Tensor u = ops.projectExperts(rows, up, offsets);
        for (Lora update : gateUpUpdates) {
            Tensor both = update.apply(ops, rows, offsets);
            g = ops.add(g, ops.columns(both, 0, g.dim(1)));
            u = ops.add(u, ops.columns(both, g.dim(1), 2 * g.dim(1)));
        }
        Tensor h = ops.gated(Fn.SILU, g, u);
        Tensor y = ops.projectExperts(h, down, offsets);
        for (Lora update : downUpdates) {
            y = ops.add(y, update.apply(ops, h, offsets));
        }
        Tensor share = ops.gather(ops.reshape(weights, Shape.of(weights.shape().size(), 1)), order);
        return ops.run(new Plain.ScatterAdd(x.dim(0), y.dtype()), ops.mul(y, share), tokens);
    }

    /** Weights [N, k] divided by their sum, which is kept from zero by {@code eps}. */
    public static Tensor normalized(Ops ops, Tensor weights, float eps) {
        Tensor sum = ops.run(new Plain.Affine(1, eps), ops.run(new Plain.Sum(Plain.Sum.Over.LAST), weights));
        return ops.mul(weights, ops.map(Fn.RECIPROCAL, sum));
    }
}
