package dev.starforge.conformance;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Adapters;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Operands.AttentionGradInputs;
import dev.starforge.tensor.op.Operands.AttentionInputs;
import dev.starforge.tensor.op.Operands.LoraInputs;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import dev.starforge.tensor.op.Training;
import java.util.Arrays;

/**
 * The tolerances of all operations. An error is relative to the sum of the absolute values of an element's terms
 * ({@link Magnitudes}), not to the element itself: if terms cancel, float32 cannot be more accurate. In units of the float32
 * rounding u = 2^-24,
 *
 * <pre>    |error| &lt;= u * (roundings + 4 * sqrt(summed)) * magnitude</pre>
 *
 * <p>{@code roundings} counts the float32 operations between an input and the result, with 2 for a division or a root and
 * 4 for a good exp, sin or tanh. {@code summed} is the length of the sums: adding n terms one after the other errs by
 * n * u at worst and by less than lambda * sqrt(n) * u in all but 2 exp(-lambda^2 / 2) of cases (Higham and Mary 2019), and
 * blocked sums are more accurate than either; lambda is 4. The bound is tight enough to detect TF32, 16-bit accumulators, or one
 * missing term in thousands. The rounding of the reference's result is added: half a unit in the last place of the output type. For
 * 16-bit outputs it is added twice, because a float32 result near the middle of two 16-bit values may round to either. The bound of
 * the float32 arithmetic is the same for all types, unless the table states 16-bit intermediates: attention probabilities,
 * dequantized weights, parts of a layer.
 */
final class Tolerances {
    /** Half the distance from 1 to the next float. */
    static final double U = 0x1p-24;

    /** The distance between the smallest f16 values. */
    private static final double F16_SMALLEST = 0x1p-24;

    /**
     * Smaller values may become zero: devices may flush subnormals, and 1 / (1 + exp(-x)) divides by infinity below exp(-88.7). SILU and
     * its slope multiply a sigmoid that was flushed, below 2^-126, by x, above -88.8, and gradients multiply that by a few units.
     */
    static final double FLOOR = 0x1p-116;

    /**
     * The tolerance of an expansion relative to that of a kernel: every intermediate is rounded to float32 in memory, and the longest
     * chain (the gradient of a norm, some thirty operations) has about twice the roundings of the kernel.
     */
    static final double EXPANSION = 2;

    private Tolerances() {}

    /**
     * The tolerance of an operation.
     *
     * @param roundings float32 operations between an input and the result; 0 means that the bits must be equal
     * @param summed the number of terms of the longest sum
     * @param reason for these numbers
     */
    record Bound(double roundings, long summed, String reason) {
        boolean exact() {
            return roundings == 0;
        }

        double units() {
            return roundings + 4 * Math.sqrt(summed);
        }
    }

    static Bound bound(Op op, Spec... in) {
        return switch (op) {
            case Plain.Permute _,
                    Plain.Slice _,
                    Plain.Concat _,
                    Plain.Columns _,
                    Plain.Pad _,
                    Plain.Gather _,
                    Plain.Pick _ ->
                exact("moves elements; widening 16 bits is exact, and blocks say what each float is");
            case Plain.Unpick _ ->
                last(in) == 1
                        ? exact("moves elements among zeros")
                        : sum(1, last(in), "at worst a row's elements are all added to one");
            case Plain.Mask _, Plain.Fill _ -> exact("writes constants and copies");
            case Plain.Cast _, Plain.Store _, Decoding.StoreInt8 _ ->
                exact("rounding to nearest even has one right answer, and so has decoding");
            case Plain.Argmax _, Routing.Route _, Routing.Group _ -> exact("an index is right or wrong");
            case Plain.Add _, Plain.Mul _ -> once(1, "one IEEE operation");
            case Plain.Affine _ -> once(2, "a product and a sum, fused or not");
            case Plain.Map _ -> once(8, "one transcendental (4), a sum, a quotient (2), a product");
            case Plain.MapGrad _ -> once(12, "one transcendental (4) and a polynomial in it and x");
            case Plain.MatMul o -> product(in[0].dtype(), in[1].dtype(), inner(o, in[0]));
            case Routing.ExpertMatMul _ -> product(in[0].dtype(), in[1].dtype(), last(in));
            case Routing.ExpertOuter _ -> sum(2, rows(in), "as MatMul; at worst all rows are one expert's");
            case Plain.Sum o -> sum(1, o.over() == Plain.Sum.Over.LAST ? last(in) : rows(in), "nothing but the sum");
            case Plain.ScatterAdd _ -> sum(1, in[1].shape().size(), "at worst all rows are added to one");
            case Plain.Softmax _ -> sum(12, last(in), "a difference, exp (4), a quotient (2), and the sum below it");
            case Plain.SoftmaxGrad _ -> sum(4, last(in), "products, a difference, and the inner product");
            case Plain.LogSumExp _ -> sum(12, last(in), "exp (4), log (4), differences, and the sum");
            case Decoding.Sample _ ->
                sum(
                        14,
                        last(in),
                        "log-probabilities are a difference from LogSumExp; tokens have no magnitude to err in");
            case Plain.Norm _ -> sum(4, total(in), "squares, a root (2), and the sum of all inputs");
            case Plain.AdamW _ ->
                once(
                        16,
                        "clip (quotient, product), two moments (4), root (2), two quotients (4), decay and update (4)");
            case Training.Accumulate _, Training.Dropout _, Training.Noise _, Training.AdamW8 _ ->
                exact("defined to the bit: every operation is rounded once, in a stated order");
            case Fused.LayerNorm _ -> sum(12, last(in), "mean and variance are sums; difference, root, three products");
            case Fused.LayerNormGrad _ ->
                sum(16, Math.max(last(in), rows(in)), "two inner products of a row; sums over rows for the weights");
            case Fused.RmsNorm _ -> sum(8, last(in), "the sum of squares; root (2) and two products");
            case Fused.RmsNormGrad _ ->
                sum(12, Math.max(last(in), rows(in)), "an inner product of a row; sums over rows for the weight");
            case Fused.Rope _ ->
                once(8, "the float32 angle is defined to the bit; sin and cos (4), two products, a sum");
            case Fused.Gated _ -> once(10, "as Map, and a product");
            case Fused.GatedGrad _ -> once(14, "as MapGrad, and two products");
            case Fused.CrossEntropy _ -> sum(14, last(in), "as LogSumExp; a difference and a product");
            case Fused.CrossEntropyGrad _ -> once(12, "a difference, exp (4), a difference, two products");
            case Fused.Attention o ->
                sum(
                        20 + (in[0].dtype() == DType.F32 ? 0 : rounding(in[0].dtype()) / U),
                        Math.max(head(in), keys(o.block(), in)),
                        "an inner product of a head, softmax (12), a sum over keys; 16-bit probabilities with such"
                                + " values");
            case Fused.AttentionGrad o ->
                sum(
                        28
                                + (gradientOf(in).dtype() == DType.F32
                                        ? 0
                                        : rounding(gradientOf(in).dtype()) / U),
                        Math.max(head(in), Math.max(keys(o.block(), in), queries(in))),
                        "the scores again; sums over keys or queries; 16-bit probabilities and slopes with such"
                                + " gradients");
            case Layers.Linear o ->
                sum(
                        12
                                + (roundsWeights(o, in) ? rounding(in[0].dtype()) / U : 0)
                                + 2 * parts(o) * rounding(o.to()) / U,
                        last(in),
                        "as MatMul, a sum for the bias, Map, a sum for the residual; each part is rounded to the"
                                + " output's type, and may be on the other side of a tie; so are weights where"
                                + " roundsWeights says so");
            case Layers.AddMatMul o ->
                sum(
                        12 + 2 * rounding(o.product().to()) / U,
                        in[0].shape().dim(o.product().transposeA() ? -2 : -1),
                        "as MatMul, and a sum; the product may be rounded to the output's type before it");
            case Layers.AddRmsNorm o -> bound(new Fused.RmsNorm(o.eps()), in);
            case Layers.AddLayerNorm o -> bound(new Fused.LayerNorm(o.eps()), in);
            case Adapters _ ->
                sum(
                        6,
                        2 * (last(in[1]) + last(LoraInputs.of(in).b())),
                        "two products, one after the other; a scale and a sum");
        };
    }

    /** The largest allowed error of each element of each result (outputs, then overwritten inputs); 0 if bits must be equal. */
    static double[][] errors(Device reference, Op op, HostTensor[] in, HostTensor[] expected) {
        return errors(bound(op, OpRunner.specs(in)), reference, op, in, expected);
    }

    /**
     * The same against the expansion of the gradient of attention. The kernel reads the stored y, while the expansion computes y again,
     * so the rounding of y to 16 bits is added.
     */
    static double[][] expansionErrors(
            Device reference, Fused.AttentionGrad op, HostTensor[] in, HostTensor[] expected) {
        Bound bound = bound(op, OpRunner.specs(in));
        double stored = rounding(AttentionGradInputs.of(in).y().spec().dtype()) / U;
        Bound wider = new Bound(bound.roundings + stored, bound.summed, bound.reason);
        return errors(wider, reference, op, in, expected);
    }

    private static double[][] errors(Bound bound, Device reference, Op op, HostTensor[] in, HostTensor[] expected) {
        double[][] errors = new double[expected.length][];
        double[][] magnitudes = bound.exact() ? new double[0][] : Magnitudes.of(reference, op, in, expected);
        for (int k = 0; k < errors.length; k++) {
            errors[k] = new double[expected[k].size()];
            DType type = expected[k].spec().dtype();
            for (int i = 0; i < errors[k].length && !bound.exact(); i++) {
                errors[k][i] = FLOOR
                        + U * bound.units() * magnitudes[k][i]
                        + rounding(type) * Math.abs(expected[k].at(i)) * (type == DType.F32 ? 1 : 2)
                        + (type == DType.F16 ? F16_SMALLEST : 0);
            }
        }
        return errors;
    }

    /** Half the distance from 1 to the next value of a type. */
    static double rounding(DType type) {
        return switch (type) {
            case F16 -> 0x1p-11;
            case BF16 -> 0x1p-8;
            default -> U;
        };
    }

    /**
     * The largest relative distance, in norm, between a gradient and the reference's float32 gradient on the same values: a few hundred
     * roundings in float32. In 16 bits four roundings: of the output that some rules read again, of the gradient, and in attention of
     * two products of both.
     */
    static double gradient(DType type) {
        return type == DType.F32 ? 256 * U : 4 * rounding(type);
    }

    /** The tolerance of a matmul with weights of this type and sums of this length. */
    private static Bound product(DType x, DType weights, long summed) {
        if (!weights.isWeight()) {
            throw new IllegalArgumentException("MatMul: no weights are " + weights);
        }
        if (weights.isQuantized() && x != DType.F32) {
            return sum(2 + rounding(x) / U, summed, "decoded weights may be rounded to the type of activations");
        }
        return weights.isQuantized()
                ? sum(2, summed, "decoded weights are exact float32; then as with those")
                : sum(2, summed, "each product is rounded once, or not at all; then the sum");
    }

    /** Returns true if dequantized weights may be rounded to the activation type: devices without a kernel that reads them do so. */
    private static boolean roundsWeights(Layers.Linear op, Spec... in) {
        return in[0].dtype() != DType.F32
                && Arrays.stream(in, 1, 1 + op.weights())
                        .anyMatch(w -> w.dtype().isQuantized());
    }

    /** The number of epilogue steps, the last of which is stored. */
    private static int parts(Layers.Linear op) {
        return (op.bias() ? 1 : 0) + (op.fn() == Fn.IDENTITY ? 0 : 1) + (op.residual() ? 1 : 0);
    }

    private static Bound exact(String reason) {
        return new Bound(0, 0, reason);
    }

    private static Bound once(double roundings, String reason) {
        return new Bound(roundings, 0, reason);
    }

    private static Bound sum(double roundings, long summed, String reason) {
        return new Bound(roundings, summed, reason);
    }

    private static long inner(Plain.MatMul op, Spec a) {
        return a.shape().dim(op.transposeA() ? -2 : -1);
    }

    private static long last(Spec... in) {
        return in[0].shape().last();
    }

    private static long rows(Spec... in) {
        return in[0].shape().rows();
    }

    private static long total(Spec... in) {
        long total = 0;
        for (Spec spec : in) {
            total += spec.shape().size();
        }
        return total;
    }

    private static long head(Spec... in) {
        return in[0].shape().dim(2);
    }

    /** The most queries that read one key: all tokens in all heads of a group. */
    private static long queries(Spec... in) {
        return in[0].shape().dim(0) * in[0].shape().dim(1) / in[1].shape().dim(1);
    }

    private static Spec gradientOf(Spec... in) {
        return AttentionGradInputs.of(in).dy();
    }

    private static long keys(int block, Spec... in) {
        return AttentionInputs.of(in).tables().shape().last() * block;
    }
}
