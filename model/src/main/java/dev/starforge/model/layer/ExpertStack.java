package dev.starforge.model.layer;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.util.ArrayList;
import java.util.List;

/**
 * The gated MLPs of a mixture of experts, stacked (Shazeer et al. 2017). Each token has k rows, one per chosen expert.
 * Rows are sorted by expert, each expert processes its contiguous rows, and the weighted results are added to their
 * tokens in the order of the experts. The number of rows is tokens times k, whatever the routing.
 *
 * @param gate [experts, inner, width]
 * @param up [experts, inner, width]
 * @param down [experts, width, inner]
 * @param gateUpUpdates the adapters' updates of gate and up, concatenated along the output dimension
 * @param downUpdates the adapters' updates of down
 */
public record ExpertStack(
        Tensor gate, Tensor up, Tensor down, List<ExpertUpdate> gateUpUpdates, List<ExpertUpdate> downUpdates) {
    /** A low-rank update of a stack. */
    public sealed interface ExpertUpdate {
        /**
         * Adds the update to {@code ys}, the outputs of one or more matrices of the stack for x. The update's outputs
         * are concatenated in the same order.
         *
         * @param tokens the token of each row of x
         * @param offsets the first row of each expert
         */
        List<Tensor> add(Ops ops, List<Tensor> ys, Tensor x, Tensor tokens, Tensor offsets);
    }

    /**
     * One adapter for all rows, in PEFT's layout.
     *
     * @param a [experts * rank, in], expert by expert
     * @param b [out, rank * experts], expert index fastest
     */
    public record SingleExpertLora(Tensor a, Tensor b, int experts, float scale) implements ExpertUpdate {
        @Override
        public List<Tensor> add(Ops ops, List<Tensor> ys, Tensor x, Tensor tokens, Tensor offsets) {
            long rank = a.dim(0) / experts;
            Tensor downs = ops.reshape(a, Shape.of(experts, rank, a.dim(1)));
            Tensor ups = ops.permute(ops.reshape(b, Shape.of(b.dim(0), rank, experts)), 2, 0, 1);
            Tensor all = ops.scale(ops.projectExperts(ops.projectExperts(x, downs, offsets), ups, offsets), scale);
            List<Tensor> sums = new ArrayList<>();
            long from = 0;
            for (Tensor y : ys) {
                sums.add(ops.add(y, ys.size() == 1 ? all : ops.columns(all, from, from + y.dim(1))));
                from += y.dim(1);
            }
            return sums;
        }
    }

    /**
     * A separate adapter for each row (see {@link Ops#loraExperts}).
     *
     * @param a [experts, adapters, rank, in]
     * @param bs one per matrix: [experts, adapters, out, rank]
     * @param scales [adapters]
     */
    public record MultiExpertLora(Tensor a, List<Tensor> bs, Tensor scales) implements ExpertUpdate {
        @Override
        public List<Tensor> add(Ops ops, List<Tensor> ys, Tensor x, Tensor tokens, Tensor offsets) {
            List<Tensor> sums = new ArrayList<>();
            for (int i = 0; i < ys.size(); i++) {
                sums.add(ops.loraExperts(ys.get(i), x, a, bs.get(i), scales, tokens, offsets));
            }
            return sums;
        }
    }

    /** x[N, C] through the experts {@code chosen} i32[N, k], weighted by {@code weights} [N, k]. */
    public Tensor forward(Ops ops, Tensor x, Tensor chosen, Tensor weights) {
        Tensor[] groups = ops.runAll(new Routing.Group((int) gate.dim(0)), chosen);
        Tensor order = groups[0];
        Tensor tokens = groups[1];
        Tensor offsets = groups[2];
        Tensor rows = ops.gather(x, tokens);
        List<Tensor> gu = List.of(ops.projectExperts(rows, gate, offsets), ops.projectExperts(rows, up, offsets));
        for (ExpertUpdate update : gateUpUpdates) {
            gu = update.add(ops, gu, rows, tokens, offsets);
        }
        Tensor h = ops.gated(Fn.SILU, gu.getFirst(), gu.getLast());
        Tensor y = ops.projectExperts(h, down, offsets);
        for (ExpertUpdate update : downUpdates) {
            y = update.add(ops, List.of(y), h, tokens, offsets).getFirst();
        }
        Tensor share = ops.gather(ops.reshape(weights, Shape.of(weights.shape().size(), 1)), order);
        return ops.run(new Plain.ScatterAdd(x.dim(0), y.dtype()), ops.mul(y, share), tokens);
    }

    /** Divides weights [N, k] by their sum plus {@code eps}. */
    public static Tensor normalizeWeights(Ops ops, Tensor weights, float eps) {
        Tensor sum = ops.run(new Plain.Affine(1, eps), ops.run(new Plain.Sum(Plain.Sum.Over.LAST), weights));
        return ops.mul(weights, ops.map(Fn.RECIPROCAL, sum));
    }
}
