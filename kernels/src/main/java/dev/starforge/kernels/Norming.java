package dev.starforge.kernels;

import dev.starforge.kernels.Neighbours.Held;
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

/** A single row is normalized, and multiplied with weights: the product's groups normalize it each for itself. */
final class Norming implements Neighbours.Pattern {
    private final Project project;
    private final Dispatch apart;

    Norming(Project project, Dispatch apart) {
        this.project = project;
        this.apart = apart;
    }

    /**
     * A norm's tensors by name.
     *
     * @param rms whether by root mean square, without mean and bias
     * @param adds whether {@code addend} is added to x first, and {@code sum} written
     * @param means of layer norms only; another tensor elsewhere, as are addend, bias and sum where they are not there
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
        static Norm of(Held held) {
            Tensor[] in = held.in();
            Tensor[] out = held.out();
            return switch (held.op()) {
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
                default -> throw new IllegalArgumentException(held.op().name() + " is no norm");
            };
        }
    }

    @Override
    public boolean begins(Held first) {
        boolean norm = switch (first.op()) {
            case Fused.LayerNorm _, Fused.RmsNorm _, Layers.AddLayerNorm _, Layers.AddRmsNorm _ -> true;
            default -> false;
        };
        return norm && first.in()[0].shape().rows() == 1 && apart(first.in(), first.out());
    }

    /** No group may write what another one still reads, or writes. */
    @Override
    public boolean follows(List<Held> held, Held next) {
        Held norm = held.getFirst();
        return isProduct(next.op())
                && Neighbours.same(next.in()[0], Norm.of(norm).normed())
                && apart(norm.in(), next.out())
                && apart(norm.out(), next.out())
                && apart(Arrays.copyOfRange(next.in(), 1, next.in().length), norm.out())
                && project.takesNorm(Norm.of(norm), linear(next), next.in(), next.out());
    }

    private static boolean isProduct(Op op) {
        return op instanceof Layers.Linear
                || op instanceof Plain.MatMul product && !product.transposeA() && product.transposeB();
    }

    private static Layers.Linear linear(Held product) {
        return product.op() instanceof Layers.Linear linear ? linear : Project.plain(product.out()[0].dtype());
    }

    private static boolean apart(Tensor[] some, Tensor[] others) {
        return Arrays.stream(some)
                .noneMatch(each -> Arrays.stream(others).anyMatch(other -> Neighbours.overlap(each, other)));
    }

    @Override
    public boolean isWhole(List<Held> held) {
        return held.size() == 2;
    }

    @Override
    public void launch(List<Held> held) {
        Held norm = held.getFirst();
        if (held.size() == 1) {
            apart.launch(norm.op(), norm.in(), norm.out());
        } else {
            Held product = held.get(1);
            project.runNormed(Norm.of(norm), linear(product), product.in(), product.out());
        }
    }
}
