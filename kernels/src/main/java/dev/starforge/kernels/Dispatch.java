package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Adapters;
import dev.starforge.tensor.op.Broadcast;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Operands.AttentionGradInputs;
import dev.starforge.tensor.op.Operands.AttentionGradOutputs;
import dev.starforge.tensor.op.Operands.AttentionInputs;
import dev.starforge.tensor.op.Operands.MaskInputs;
import dev.starforge.tensor.op.Operands.RmsNormGradInputs;
import dev.starforge.tensor.op.Operands.SampleInputs;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import dev.starforge.tensor.op.Training;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.function.BiConsumer;

/**
 * Maps an operation to kernel launches: the kernel, its arguments in the order of its parameters, and the number of groups. Group counts
 * depend on shapes alone, so that a captured step fits any data.
 */
public final class Dispatch {
    /** Bytes of scratch memory that a device must provide: the partial sums of a norm, in double; see adamw.kernel. */
    public static final long WORKSPACE = 8L * Dispatch.NORM_PARTIALS;

    /** The largest head size that the attention kernels support. */
    static final int MAX_HEAD = 256;

    private static final int NORM_PARTIALS = 512;

    /** Tensors with at least this many elements rotate several heads per thread, which share the angle. */
    private static final long ROPE_UNROLL_MIN_ELEMENTS = 1 << 16;

    private static final int MAX_HEADS_PER_THREAD = 8;

    private final Launcher launcher;
    private final QuantizedWeights weights;
    private final MatMuls matmuls;
    private final RowOps rows;
    private final FlashAttention flash;
    private final FusionPatterns fusions;

    public Dispatch(Launcher launcher) {
        this.launcher = launcher;
        weights = new QuantizedWeights(launcher);
        Gemv gemv = new Gemv(launcher);
        matmuls = new MatMuls(launcher, weights, gemv);
        rows = new RowOps(launcher);
        flash = new FlashAttention(launcher);
        fusions = new FusionPatterns(new RopeStoreFusion(launcher, flash, this), new NormMatMulFusion(gemv, this));
    }

    /**
     * The operations that these kernels support: all but attention with larger heads, and quantized weights only as matrices that {@link
     * WeightTiles} supports.
     */
    public static Support supports(Op op, Spec... in) {
        for (Spec spec : in) {
            if (spec.dtype().isQuantized()) {
                return quantized(op, in);
            }
        }
        return switch (op) {
            case Plain o -> Support.NATIVE;
            case Routing o -> Support.NATIVE;
            case Decoding o -> Support.NATIVE;
            case Training o -> Support.NATIVE;
            case Fused.LayerNorm o -> Support.NATIVE;
            case Fused.LayerNormGrad o -> Support.NATIVE;
            case Fused.RmsNorm o -> Support.NATIVE;
            case Fused.RmsNormGrad o -> Support.NATIVE;
            case Fused.Rope o -> Support.NATIVE;
            case Fused.Gated o -> Support.NATIVE;
            case Fused.GatedGrad o -> Support.NATIVE;
            case Fused.CrossEntropy o -> Support.NATIVE;
            case Fused.CrossEntropyGrad o -> Support.NATIVE;
            case Fused.Attention o -> attentionSupport(in);
            case Fused.AttentionGrad o -> attentionSupport(in);
            case Layers o -> Support.NATIVE;
            case Adapters.Lora o ->
                in[0].shape().dim(0) <= MatMuls.LORA_TABLE_MAX_ROWS ? Support.NATIVE : Support.EXPANDED;
            case Adapters.ExpertLora o -> Support.EXPANDED;
        };
    }

    private static Support quantized(Op op, Spec... in) {
        boolean taken = switch (op) {
            case Plain.MatMul _, Layers.AddMatMul _ -> in[1].shape().rank() == 2 && WeightTiles.supports(in[1]);
            case Layers.Linear o ->
                Arrays.stream(in, 1, 1 + o.weights())
                        .allMatch(w -> !w.dtype().isQuantized() || WeightTiles.supports(w));
            case Plain.Gather _ -> WeightTiles.supports(in[0]);
            case Plain.Cast o -> o.to() == DType.F32 && WeightTiles.supports(in[0]);
            default -> false;
        };
        return taken ? Support.NATIVE : Support.NONE;
    }

    private static Support attentionSupport(Spec... in) {
        return in[0].shape().dim(2) <= MAX_HEAD ? Support.NATIVE : Support.EXPANDED;
    }

    /** Bytes of scratch memory that an operation uses on a device with these siblings. */
    public static long workspace(Set<Sibling> siblings, Op op, Spec... in) {
        return switch (op) {
            case Plain.Norm _ -> WORKSPACE;
            case Plain.MatMul o -> MatMuls.workspace(siblings, o, in[0], in[1]);
            case Layers.AddMatMul o -> MatMuls.workspace(siblings, o.product(), in[0], in[1]);
            case Layers.Linear o -> MatMuls.workspace(siblings, o, in);
            case Fused.Attention _ -> FlashAttention.workspace(siblings, in);
            case Adapters.Lora _ -> in[0].shape().dim(0) * in[2].shape().dim(1) * Float.BYTES;
            case Fused.AttentionGrad o -> FlashAttention.gradientWorkspace(siblings, o.block(), in);
            case Plain.Sum o -> o.over() == Plain.Sum.Over.LEADING ? RowOps.workspace(in[0].shape(), 1) : 0;
            case Fused.LayerNormGrad o -> o.weights() ? RowOps.layerNormWorkspace(in[0].shape()) : 0;
            case Fused.RmsNormGrad _ -> RowOps.workspace(in[0].shape(), 1);
            case Plain.Add _,
                    Plain.Mul _,
                    Plain.Affine _,
                    Plain.Map _,
                    Plain.MapGrad _,
                    Plain.Permute _,
                    Plain.Softmax _,
                    Plain.SoftmaxGrad _,
                    Plain.LogSumExp _,
                    Plain.Pick _,
                    Plain.Unpick _,
                    Plain.Gather _,
                    Plain.ScatterAdd _,
                    Plain.Slice _,
                    Plain.Concat _,
                    Plain.Columns _,
                    Plain.Pad _,
                    Plain.Fill _,
                    Plain.Cast _,
                    Plain.Mask _,
                    Plain.Argmax _,
                    Plain.Store _,
                    Plain.AdamW _,
                    Routing.Route _,
                    Routing.Group _,
                    Routing.ExpertMatMul _,
                    Routing.ExpertOuter _,
                    Decoding.StoreInt8 _,
                    Decoding.Sample _,
                    Training.Accumulate _,
                    Training.Dropout _,
                    Training.Noise _,
                    Training.AdamW8 _,
                    Fused.LayerNorm _,
                    Fused.RmsNorm _,
                    Fused.Rope _,
                    Fused.Gated _,
                    Fused.GatedGrad _,
                    Fused.CrossEntropy _,
                    Fused.CrossEntropyGrad _,
                    Layers.AddRmsNorm _,
                    Layers.AddLayerNorm _,
                    Adapters.ExpertLora _ -> 0;
        };
    }

    /** Returns true if tensors of this spec are stored as weight tiles: they are packed after a write and unpacked for a read. */
    public static boolean hasWeightTiles(Spec w) {
        return w.dtype().isQuantized() && WeightTiles.supports(w);
    }

    /** Repacks a matrix from the layout of its file to tiles. */
    public void pack(Tensor w) {
        weights.pack(w);
    }

    /**
     * Repacks the matrices of a tensor of tiles to the layout of their file, one after the other.
     *
     * @param scratch for one of them
     * @param reader receives the bytes of each, and their offset within the tensor
     */
    public void unpack(Tensor tiles, Scope scratch, BiConsumer<Tensor, Long> reader) {
        Shape shape = Shape.of(tiles.dim(-2), tiles.dim(-1));
        long at = 0;
        for (long element = 0; element < tiles.shape().size(); element += shape.size()) {
            Tensor matrix = tiles.view(element, shape);
            scratch.mark();
            Tensor file = scratch.allocate(new Spec(DType.U8, Shape.of(matrix.bytes())));
            weights.unpack(matrix, file);
            reader.accept(file, at);
            at += file.bytes();
            scratch.release();
        }
    }

    /** Launches a supported operation now, or fused with the following operations, but at the latest at {@link #flush}. */
    public void run(Op op, Tensor[] in, Tensor[] out) {
        if (out.length > 0 && Arrays.stream(out).allMatch(tensor -> KernelCall.size(tensor) == 0)) {
            return;
        }
        if (!fusions.offer(op, in, out)) {
            launch(op, in, out);
        }
    }

    /** Launches pending operations. Must be called before memory is read, written or released in any other way. */
    public void flush() {
        fusions.flush();
    }

    void launch(Op op, Tensor[] in, Tensor[] out) {
        switch (op) {
            case Plain.Add o -> broadcast(Kernel.ADD, o, in, out[0]);
            case Plain.Mul o -> broadcast(Kernel.MUL, o, in, out[0]);
            case Plain.Affine o ->
                elementwise(Kernel.AFFINE, out[0], in[0], out[0])
                        .f32(o.scale())
                        .f32(o.shift())
                        .elementsUnrolled(KernelCall.size(out[0]));
            case Plain.Map o ->
                elementwise(Kernel.MAP, out[0], in[0], out[0])
                        .function(o.fn(), KernelCall.size(out[0]))
                        .elementsUnrolled(KernelCall.size(out[0]));
            case Plain.MapGrad o ->
                elementwise(Kernel.MAP_GRAD, out[0], in[0], in[1], out[0])
                        .function(o.fn(), KernelCall.size(out[0]))
                        .elementsUnrolled(KernelCall.size(out[0]));
            case Plain.Cast _ when in[0].dtype().isQuantized() -> weights.dequantize(in[0], out[0]);
            case Plain.Gather _ when in[0].dtype().isQuantized() -> weights.gather(in[0], in[1], out[0]);
            case Plain.Cast o ->
                elementwise(Kernel.CAST, out[0], in[0], out[0]).elementsUnrolled(KernelCall.size(out[0]));
            case Plain.Fill o ->
                elementwise(Kernel.FILL, out[0], out[0]).f32(o.value()).elements(KernelCall.size(out[0]));
            case Plain.MatMul o -> matmuls.matmul(o, in[0], in[1], List.of(), out[0]);
            case Plain.Permute o -> rows.permute(o.axes(), in[0], out[0]);
            case Plain.Sum o -> rows.sum(o.over(), in[0], out[0]);
            case Plain.Pick o ->
                elementwise(Kernel.PICK, out[0], in[0], in[1], out[0])
                        .i64(in[0].shape().last())
                        .i64(out[0].shape().last())
                        .elements(KernelCall.size(out[0]));
            case Plain.Unpick o ->
                elementwise(Kernel.UNPICK, out[0], in[0], in[1], out[0])
                        .i64(o.width())
                        .i64(in[0].shape().last())
                        .elements(KernelCall.size(out[0]));
            case Plain.Columns o -> rows.columns(Kernel.COLUMNS, o.from(), in[0], out[0]);
            case Plain.Pad o -> rows.columns(Kernel.PAD, o.from(), in[0], out[0]);
            case Plain.Gather o -> rows.gather(in[0], in[1], out[0]);
            case Plain.ScatterAdd o -> rows.scatterAdd(o.height(), in[0], in[1], out[0]);
            case Plain.Slice o -> rows.slice(o.from(), in[0], out[0]);
            case Plain.Concat o -> rows.concat(in, out[0]);
            case Plain.Store o -> rows.store(in[0], in[1], in[2]);
            case Routing.Route o -> matmuls.route(o, in[0], out[0]);
            case Routing.Group o -> matmuls.group(o.experts(), in[0], out);
            case Routing.ExpertMatMul o -> matmuls.expertMatmul(o.transposeB(), in[0], in[1], in[2], out[0]);
            case Routing.ExpertOuter o -> matmuls.expertOuter(in, out[0]);
            case Plain.Softmax o -> eachRow(Kernel.SOFTMAX, in[0], in[0], out[0]);
            case Plain.SoftmaxGrad o -> eachRow(Kernel.SOFTMAX_GRAD, in[0], in[0], in[1], out[0]);
            case Plain.LogSumExp o -> eachRow(Kernel.LOG_SUM_EXP, in[0], in[0], out[0]);
            case Plain.Argmax o ->
                call(Kernel.ARGMAX)
                        .tensors(in[0], out[0])
                        .i32(in[0].shape().last())
                        .groups(in[0].shape().rows());
            case Decoding.StoreInt8 o -> rows.storeInt8(in);
            case Decoding.Sample o ->
                call(Kernel.SAMPLE)
                        .tensors(in)
                        .tensors(out)
                        .i32(in[0].dim(1))
                        .i32(SampleInputs.of(in).biased().dim(1))
                        .i32(SampleInputs.of(in).allowed().dim(1))
                        .i32(o.top())
                        .groups(in[0].dim(0));
            case Plain.Mask o ->
                elementwise(Kernel.MASK, out[0], in[0], in[1], in[2], out[0])
                        .i32(KernelCall.size(in[2]))
                        .i64(MaskInputs.of(in).tables().dim(1) * o.block())
                        .i64(in[0].shape().last())
                        .i32(o.window())
                        .elements(KernelCall.size(out[0]));
            case Plain.Norm o -> norm(in, out[0]);
            case Plain.AdamW o ->
                elementwise(Kernel.ADAMW, in[0], in)
                        .f32(1 - o.beta1())
                        .f32(1 - o.beta2())
                        .f32(o.eps())
                        .f32(o.weightDecay())
                        .f32(o.maxNorm())
                        .elements(KernelCall.size(in[0]));
            case Training.Accumulate o -> broadcast(Kernel.ADD, o, in, in[0]);
            case Training.Dropout o -> dropout(o, in, out[0]);
            case Training.Noise o ->
                call(Kernel.NOISE)
                        .tensors(in)
                        .tensors(out)
                        .i64(KernelCall.size(out[0]))
                        .i64(in[0].shape().last())
                        .i32(o.site())
                        .elements(KernelCall.size(out[0]));
            case Training.AdamW8 o ->
                elementwise(Kernel.ADAMW8, in[0], in)
                        .i64(Training.AdamW8.blocks(in[0].shape()))
                        .f32(1 - o.beta1())
                        .f32(1 - o.beta2())
                        .f32(o.eps())
                        .f32(o.weightDecay())
                        .f32(o.maxNorm())
                        .groups(Training.AdamW8.blocks(in[0].shape()));
            case Fused.LayerNorm o -> rows.layerNorm(Kernel.LAYER_NORM, o.eps(), in, out);
            case Fused.LayerNormGrad o -> rows.layerNormGrad(in, out);
            case Fused.RmsNorm o -> norm(Kernel.RMS_NORM, o.eps(), in, out);
            case Fused.RmsNormGrad o -> rmsNormGrad(in, out);
            case Fused.Rope o -> rope(o, in, out[0]);
            case Fused.Gated o ->
                elementwise(Kernel.GATED, out[0], in[0], in[1], out[0])
                        .function(o.fn(), KernelCall.size(out[0]))
                        .elementsUnrolled(KernelCall.size(out[0]));
            case Fused.GatedGrad o ->
                elementwise(Kernel.GATED_GRAD, out[0], in[0], in[1], in[2], out[0], out[1])
                        .function(o.fn(), KernelCall.size(out[0]))
                        .elementsUnrolled(KernelCall.size(out[0]));
            case Fused.CrossEntropy o -> eachRow(Kernel.CROSS_ENTROPY, in[0], in[0], in[1], in[2], out[0], out[1]);
            case Fused.CrossEntropyGrad o ->
                call(Kernel.CROSS_ENTROPY_GRAD)
                        .tensors(in)
                        .tensors(out)
                        .i64(in[0].shape().last())
                        .groups(in[0].shape().rows());
            case Fused.Attention o when flash.supports(in) -> flash.run(o, in, out);
            case Fused.Attention o -> attention(o, in, out);
            case Fused.AttentionGrad o when flash.supportsGradient(in) -> flash.runGradient(o, in, out);
            case Fused.AttentionGrad o -> attentionGrad(o, in, out);
            case Layers.Linear o -> matmuls.linear(o, in, out);
            case Layers.AddMatMul o -> {
                if (!matmuls.matmul(o.product(), in[0], in[1], List.of(in[2]), out[0])) {
                    broadcast(Kernel.ADD, o, new Tensor[] {in[2], out[0]}, out[0]);
                }
            }
            case Layers.AddLayerNorm o -> rows.layerNorm(Kernel.ADD_LAYER_NORM, o.eps(), in, out);
            case Layers.AddRmsNorm o -> norm(Kernel.ADD_RMS_NORM, o.eps(), in, out);
            case Adapters.Lora _ -> matmuls.lora(in, out[0]);
            case Adapters.ExpertLora o ->
                throw new DeviceException(o.name() + ": has no kernel; it runs as its expansion");
        }
    }

    private KernelCall call(Kernel kernel) {
        return new KernelCall(launcher, kernel);
    }

    /** A call whose first scalar is the number of elements. */
    private KernelCall elementwise(Kernel kernel, Tensor sized, Tensor... tensors) {
        return call(kernel).tensors(tensors).i64(KernelCall.size(sized));
    }

    /** Runs a kernel with one group per row, whose only scalar is the width of {@code x}. */
    private void eachRow(Kernel kernel, Tensor x, Tensor... tensors) {
        call(kernel).tensors(tensors).i64(x.shape().last()).groups(x.shape().rows());
    }

    private void dropout(Training.Dropout op, Tensor[] in, Tensor y) {
        long draws = in[0].dim(0) * KernelCall.groups(in[0].dim(1), 4);
        call(Kernel.DROPOUT)
                .tensors(in)
                .tensors(y)
                .i64(draws)
                .i64(in[0].dim(1))
                .i32(op.site())
                .f32(op.rate())
                .f32(op.scale())
                .elements(draws);
    }

    private void norm(Kernel kernel, float eps, Tensor[] in, Tensor[] out) {
        call(kernel)
                .tensors(in)
                .tensors(out)
                .i64(in[0].shape().last())
                .f32(eps)
                .groups(in[0].shape().rows());
    }

    private void broadcast(Kernel kernel, Op op, Tensor[] in, Tensor out) {
        Broadcast broadcast = Broadcast.of(op, in[0].shape(), in[1].shape());
        int code = switch (broadcast) {
            case SAME -> 0;
            case ROW -> 1;
            case COLUMN -> 2;
        };
        elementwise(kernel, out, in[0], in[1], out)
                .i32(code)
                .i64(broadcast == Broadcast.COLUMN ? in[0].shape().last() : KernelCall.size(in[1]))
                .elementsUnrolled(KernelCall.size(out));
    }

    private void norm(Tensor[] in, Tensor y) {
        for (int i = 0; i < in.length; i++) {
            call(Kernel.NORM_PART)
                    .tensors(in[i])
                    .workspace()
                    .i64(KernelCall.size(in[i]))
                    .flag(i == 0)
                    .groups(NORM_PARTIALS);
        }
        call(Kernel.NORM)
                .workspace()
                .tensors(y)
                .i32(in.length == 0 ? 0 : NORM_PARTIALS)
                .groups(1);
    }

    /** (x, w, rstd, dy) -> dx[, dw]. */
    private void rmsNormGrad(Tensor[] in, Tensor[] out) {
        RmsNormGradInputs<Tensor> g = RmsNormGradInputs.of(in);
        eachRow(Kernel.RMS_NORM_GRAD, g.x(), g.x(), g.w(), g.rstd(), g.dy(), out[0]);
        if (out.length > 1) {
            Tensor[] read = {g.x(), g.rstd(), g.dy()};
            rows.sumRows(Kernel.RMS_NORM_GRAD_WEIGHTS, g.x().shape(), read, out[1]);
        }
    }

    private void rope(Fused.Rope op, Tensor[] in, Tensor y) {
        long heads = in[0].dim(1);
        long d = in[0].dim(2);
        long half = KernelCall.size(in[2]);
        int together = KernelCall.size(in[0]) < ROPE_UNROLL_MIN_ELEMENTS
                ? 1
                : (int) Math.min(MAX_HEADS_PER_THREAD, Long.lowestOneBit(heads));
        long work = in[0].dim(0) * heads / together * (d - half);
        call(Kernel.ROPE)
                .define("HEADS_PER_THREAD", together)
                .tensors(in[0], in[1], in[2], y)
                .i64(work)
                .i32(heads)
                .i32(d)
                .i32(half)
                .f32(op.magnitude())
                .flag(op.inverse())
                .elements(work);
    }

    private static KernelCall heads(KernelCall call, Tensor q, Tensor k) {
        return call.i32(q.dim(1)).i32(k.dim(1)).i32(q.dim(2));
    }

    /** (q, k, v, starts, positions, tables[, scales of k, of v]) -> y, lse. */
    private void attention(Fused.Attention op, Tensor[] in, Tensor[] out) {
        AttentionInputs<Tensor> a = AttentionInputs.of(in);
        boolean scaled = a.isInt8();
        KernelCall call = call(Kernel.ATTENTION).tensors(Arrays.copyOf(in, 6));
        (scaled
                        ? call.tensors(a.kScales(), a.vScales())
                        : call.absent(DType.F32).absent(DType.F32))
                .tensors(out)
                .flag(scaled);
        heads(call, a.q(), a.k())
                .i32(a.tables().dim(0))
                .i32(a.tables().dim(1))
                .i32(op.block())
                .i32(op.window())
                .f32(op.scale())
                .groups(in[0].dim(0), in[0].dim(1), 1);
    }

    /** (q, k, v, starts, positions, tables, y, lse, dy) -> dq, dk, dv. */
    private void attentionGrad(Fused.AttentionGrad op, Tensor[] in, Tensor[] out) {
        AttentionInputs<Tensor> forward = AttentionGradInputs.of(in).forward();
        AttentionGradOutputs<Tensor> gradients = AttentionGradOutputs.of(out);
        long sequences = forward.tables().dim(0);
        long tableWidth = forward.tables().dim(1);
        heads(call(Kernel.ATTENTION_GRAD_QUERY).tensors(in).tensors(gradients.dq()), forward.q(), forward.k())
                .i32(sequences)
                .i32(tableWidth)
                .i32(op.block())
                .i32(op.window())
                .f32(op.scale())
                .groups(in[0].dim(0), in[0].dim(1), 1);
        launcher.zero(gradients.dk());
        launcher.zero(gradients.dv());
        KernelCall keys = call(Kernel.ATTENTION_GRAD_KEY_VALUE).tensors(in).tensors(gradients.dk(), gradients.dv());
        heads(keys, forward.q(), forward.k())
                .i32(tableWidth)
                .i32(op.block())
                .i32(op.window())
                .f32(op.scale())
                .groups(sequences * tableWidth * op.block(), in[1].dim(1), 1);
    }

    /** The FN constants of common.kernel. */
    static int code(Fn fn) {
        return switch (fn) {
            case EXP -> 0;
            case RSQRT -> 1;
            case RECIPROCAL -> 2;
            case SIGMOID -> 3;
            case SIN -> 4;
            case COS -> 5;
            case SILU -> 6;
            case GELU_TANH -> 7;
            case IDENTITY -> 8;
        };
    }
}
