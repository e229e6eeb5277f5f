package dev.starforge.kernels;

import dev.starforge.kernels.FusionPatterns.PendingOp;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Operands.AddLayerNormInputs;
import dev.starforge.tensor.op.Operands.AddLayerNormOutputs;
import dev.starforge.tensor.op.Operands.LayerNormOutputs;
import dev.starforge.tensor.op.Plain;
import java.util.Arrays;
import java.util.List;

/** Fuses the norm of a single row with the linear layer that follows: the groups of the product normalize the row redundantly. */
final class NormMatMulFusion implements FusionPatterns.Pattern {
    private final Gemv gemv;
    private final Dispatch dispatch;

    NormMatMulFusion(Gemv gemv, Dispatch dispatch) {
        this.gemv = gemv;
        this.dispatch = dispatch;
    }

    /**
     * A norm's tensors by name.
     *
     * @param rms whether it is RMSNorm, without mean and bias
     * @param adds whether {@code addend} is added to x first, and {@code sum} written
     * @param means of layer norms only; missing tensors are replaced by others
     */
    record Norm(
            boolean rms,
            boolean adds,
            float eps,
            Tensor x,
            Tensor addend,
            Tensor weight,
            Tensor bias,
            Tensor sum,
            Tensor normed,
            Tensor means,
            Tensor rstds) {
        static Norm of(PendingOp ops) {
            Tensor[] in = ops.in();
            Tensor[] out = ops.out();
            return switch (ops.op()) {
                case Fused.LayerNorm o ->
                    new Norm(false, false, o.eps(), in[0], in[0], in[1], in[2], out[0], out[0], out[1], out[2]);
                case Fused.RmsNorm o ->
                    new Norm(true, false, o.eps(), in[0], in[0], in[1], in[1], out[0], out[0], out[1], out[1]);
                case Layers.AddLayerNorm o -> {
                    AddLayerNormInputs<Tensor> a = AddLayerNormInputs.of(in);
                    AddLayerNormOutputs<Tensor> h = AddLayerNormOutputs.of(out);
                    LayerNormOutputs<Tensor> n = h.norm();
                    yield new Norm(false, true, o.eps(), a.x(), a.y(), a.w(), a.b(), h.h(), n.y(), n.mean(), n.rstd());
                }
                case Layers.AddRmsNorm o ->
                    new Norm(true, true, o.eps(), in[0], in[1], in[2], in[2], out[0], out[1], out[2], out[2]);
                default -> throw new IllegalArgumentException(ops.op().name() + " is no norm");
            };
        }
    }

    @Override
    public boolean startsWith(PendingOp first) {
        boolean norm = switch (first.op()) {
            case Fused.LayerNorm _, Fused.RmsNorm _, Layers.AddLayerNorm _, Layers.AddRmsNorm _ -> true;
            default -> false;
        };
        return norm && first.in()[0].shape().rows() == 1 && disjoint(first.in(), first.out());
    }

    /** Groups must not write what other groups still read, or write. */
    @Override
    public boolean continuesWith(List<PendingOp> ops, PendingOp next) {
        PendingOp norm = ops.getFirst();
        return isProduct(next.op())
                && FusionPatterns.isSameTensor(next.in()[0], Norm.of(norm).normed())
                && disjoint(norm.in(), next.out())
                && disjoint(norm.out(), next.out())
                && disjoint(Arrays.copyOfRange(next.in(), 1, next.in().length), norm.out())
                && gemv.supportsNorm(Norm.of(norm), linear(next), next.in(), next.out());
    }

    private static boolean isProduct(Op op) {
        return op instanceof Layers.Linear
                || op instanceof Plain.MatMul product && !product.transposeA() && product.transposeB();
    }

    private static Layers.Linear linear(PendingOp product) {
        return product.op() instanceof Layers.Linear linear ? linear : Gemv.matmulOnly(product.out()[0].dtype());
    }

    private static boolean disjoint(Tensor[] some, Tensor[] others) {
        return Arrays.stream(some)
                .noneMatch(each -> Arrays.stream(others).anyMatch(other -> FusionPatterns.overlaps(each, other)));
    }

    @Override
    public boolean isComplete(List<PendingOp> ops) {
        return ops.size() == 2;
    }

    @Override
    public void launch(List<PendingOp> ops) {
        PendingOp norm = ops.getFirst();
        if (ops.size() == 1) {
            dispatch.launch(norm.op(), norm.in(), norm.out());
        } else {
            PendingOp product = ops.get(1);
            gemv.runWithNorm(Norm.of(norm), linear(product), product.in(), product.out());
        }
    }
}
