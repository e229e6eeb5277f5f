package dev.starforge.tensor.reference;

import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.host.HostMemory;
import dev.starforge.tensor.host.WriteProgress;
import dev.starforge.tensor.op.Adapters;
import dev.starforge.tensor.op.Broadcast;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Operands.AdamW8Inputs;
import dev.starforge.tensor.op.Operands.AdamWInputs;
import dev.starforge.tensor.op.Operands.AddLayerNormInputs;
import dev.starforge.tensor.op.Operands.AddLayerNormOutputs;
import dev.starforge.tensor.op.Operands.AddRmsNormOutputs;
import dev.starforge.tensor.op.Operands.AttentionGradInputs;
import dev.starforge.tensor.op.Operands.AttentionGradOutputs;
import dev.starforge.tensor.op.Operands.AttentionInputs;
import dev.starforge.tensor.op.Operands.CrossEntropyGradInputs;
import dev.starforge.tensor.op.Operands.ExpertLoraInputs;
import dev.starforge.tensor.op.Operands.GroupOutputs;
import dev.starforge.tensor.op.Operands.LayerNormGradInputs;
import dev.starforge.tensor.op.Operands.LayerNormOutputs;
import dev.starforge.tensor.op.Operands.LoraInputs;
import dev.starforge.tensor.op.Operands.MaskInputs;
import dev.starforge.tensor.op.Operands.NoiseInputs;
import dev.starforge.tensor.op.Operands.RmsNormGradInputs;
import dev.starforge.tensor.op.Operands.SampleInputs;
import dev.starforge.tensor.op.Operands.SampleOutputs;
import dev.starforge.tensor.op.Operands.StoreInt8Inputs;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import dev.starforge.tensor.op.Training;
import java.nio.ByteBuffer;
import java.util.Arrays;

/** Every operation as loops a student can follow, in double, one thread. What the other backends are compared with. */
final class ReferenceDevice implements Device {
    private final WriteProgress pieces = new WriteProgress();

    @Override
    public String name() {
        return "reference";
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Support.NATIVE;
    }

    @Override
    public long workspace(Op op, Spec... in) {
        return 0;
    }

    @Override
    public long workspaceBytes() {
        return 0;
    }

    @Override
    public Memory reserve(long bytes) {
        return new HostMemory(bytes);
    }

    @Override
    public void release(Memory memory) {
        HostMemory.free(memory);
    }

    @Override
    public void write(Tensor to, ByteBuffer from) {
        HostMemory.write(to, from);
    }

    @Override
    public void write(Tensor to, long from, ByteBuffer piece) {
        if (to.dtype().isQuantized()) {
            pieces.take(to, from, piece.remaining());
        }
        HostMemory.write(to, from, piece);
    }

    @Override
    public void read(Tensor from, ByteBuffer to) {
        HostMemory.read(from, to);
    }

    @Override
    public void close() {}

    @Override
    public void run(Op op, Tensor[] inputs, Tensor[] outputs) {
        View[] in = Arrays.stream(inputs).map(View::new).toArray(View[]::new);
        View[] out = Arrays.stream(outputs).map(View::new).toArray(View[]::new);
        switch (op) {
            case Plain.Add o -> Elementwise.add(in[0], in[1], broadcast(o, inputs), out[0]);
            case Plain.Mul o -> Elementwise.mul(in[0], in[1], broadcast(o, inputs), out[0]);
            case Plain.Affine o -> Elementwise.affine(o.scale(), o.shift(), in[0], out[0]);
            case Plain.Map o -> Elementwise.map(o.fn(), in[0], out[0]);
            case Plain.MapGrad o -> Elementwise.mapGrad(o.fn(), in[0], in[1], out[0]);
            case Plain.Cast o -> Elementwise.cast(in[0], out[0]);
            case Plain.Fill o -> out[0].fill(o.value());
            case Plain.MatMul o ->
                MatMul.run(o.transposeA(), o.transposeB(), inputs[0].shape(), inputs[1].shape(), in[0], in[1], out[0]);
            case Plain.Permute o -> Rows.permute(o.axes(), inputs[0].shape(), in[0], out[0]);
            case Plain.Sum o -> Rows.sum(o.over(), in[0], out[0]);
            case Plain.Pick o -> Rows.pick(in[0], in[1], out[0]);
            case Plain.Unpick o -> Rows.unpick(in[0], in[1], out[0]);
            case Plain.Gather o -> Rows.gather(in[0], inputs[0].dim(0), in[1], out[0]);
            case Plain.ScatterAdd o -> Rows.scatterAdd(in[0], in[1], o.height(), out[0]);
            case Plain.Slice o -> Rows.slice(o.from(), inputs[0].dim(0), in[0], out[0]);
            case Plain.Columns o -> Rows.columns(o.from(), in[0], out[0]);
            case Plain.Pad o -> Rows.pad(o.from(), in[0], out[0]);
            case Routing.Route o -> Experts.route(o, in[0], out[0]);
            case Routing.Group o -> Experts.group(in[0], GroupOutputs.of(out));
            case Routing.ExpertMatMul o -> Experts.matmul(o.transposeB(), in, out[0]);
            case Routing.ExpertOuter o -> Experts.outer(in, out[0]);
            case Plain.Concat o -> Rows.concat(in, out[0]);
            case Plain.Store o -> Rows.store(in[0], in[1], inputs[0].dim(0), in[2]);
            case Plain.Softmax o -> Softmax.softmax(in[0], out[0]);
            case Plain.SoftmaxGrad o -> Softmax.softmaxGrad(in[0], in[1], out[0]);
            case Plain.LogSumExp o -> Softmax.logSumExp(in[0], out[0]);
            case Plain.Argmax o -> Softmax.argmax(in[0], out[0]);
            case Plain.Mask o -> Attention.mask(o.window(), o.block(), MaskInputs.of(in), out[0]);
            case Plain.Norm o -> AdamW.norm(in, out[0]);
            case Plain.AdamW o -> AdamW.step(o, AdamWInputs.of(in));
            case Decoding.Sample o -> Sample.run(SampleInputs.of(in), SampleOutputs.of(out));
            case Decoding.StoreInt8 o -> Rows.storeInt8(StoreInt8Inputs.of(in), inputs[0].dim(0));
            case Training.Accumulate o -> Elementwise.accumulate(in[0], in[1]);
            case Training.Dropout o -> Dropout.run(o, NoiseInputs.of(in), out[0]);
            case Training.Noise o -> Dropout.noise(o, NoiseInputs.of(in), in[4], out[0]);
            case Training.AdamW8 o -> AdamW8.step(o, AdamW8Inputs.of(in));
            case Fused.LayerNorm o -> LayerNorm.forward(o.eps(), in, LayerNormOutputs.of(out));
            case Fused.LayerNormGrad o -> LayerNorm.gradient(LayerNormGradInputs.of(in), out);
            case Fused.RmsNorm o -> RmsNorm.forward(o.eps(), in, out);
            case Fused.RmsNormGrad o -> RmsNorm.gradient(RmsNormGradInputs.of(in), out);
            case Fused.Rope o -> Rope.run(o.magnitude(), o.inverse(), inputs[0].shape(), in, out[0]);
            case Fused.Gated o -> Gated.forward(o.fn(), in[0], in[1], out[0]);
            case Fused.GatedGrad o -> Gated.gradient(o.fn(), in, out);
            case Fused.CrossEntropy o -> CrossEntropy.forward(in, out);
            case Fused.CrossEntropyGrad o -> CrossEntropy.gradient(CrossEntropyGradInputs.of(in), out[0]);
            case Fused.Attention o ->
                new Attention(
                                o.scale(),
                                o.window(),
                                o.block(),
                                inputs[0].shape(),
                                inputs[1].shape(),
                                AttentionInputs.of(in))
                        .forward(out[0], out[1]);
            case Fused.AttentionGrad o -> {
                AttentionGradInputs<View> g = AttentionGradInputs.of(in);
                new Attention(o.scale(), o.window(), o.block(), inputs[0].shape(), inputs[1].shape(), g.forward())
                        .gradient(g.y(), g.lse(), g.dy(), AttentionGradOutputs.of(out));
            }
            case Layers.Linear o -> linear(o, inputs, in, out);
            case Layers.AddMatMul o -> {
                run(o.product(), new Tensor[] {inputs[0], inputs[1]}, outputs);
                Elementwise.add(in[2], out[0], Broadcast.SAME, out[0]);
            }
            case Layers.AddRmsNorm o -> {
                AddRmsNormOutputs<View> sum = AddRmsNormOutputs.of(out);
                Elementwise.add(in[0], in[1], Broadcast.SAME, sum.h());
                RmsNorm.forward(o.eps(), new View[] {sum.h(), in[2]}, new View[] {sum.y(), sum.rstd()});
            }
            case Layers.AddLayerNorm o -> {
                AddLayerNormInputs<View> a = AddLayerNormInputs.of(in);
                AddLayerNormOutputs<View> sum = AddLayerNormOutputs.of(out);
                Elementwise.add(a.x(), a.y(), Broadcast.SAME, sum.h());
                LayerNorm.forward(o.eps(), new View[] {sum.h(), a.w(), a.b()}, sum.norm());
            }
            case Adapters.Lora o -> Lora.rows(LoraInputs.of(in), out[0]);
            case Adapters.ExpertLora o -> Lora.experts(ExpertLoraInputs.of(in), out[0]);
        }
    }

    private static void linear(Layers.Linear op, Tensor[] inputs, View[] in, View[] out) {
        for (int i = 0; i < op.weights(); i++) {
            View y = out[i];
            MatMul.run(false, true, inputs[0].shape(), inputs[1 + i].shape(), in[0], in[1 + i], y);
            if (op.bias()) {
                Elementwise.add(y, in[op.biasOf(1 + i)], Broadcast.ROW, y);
            }
            if (op.fn() != Fn.IDENTITY) {
                Elementwise.map(op.fn(), y, y);
            }
            if (op.residual()) {
                Elementwise.add(in[op.residualInput()], y, Broadcast.SAME, y);
            }
        }
    }

    private static Broadcast broadcast(Op op, Tensor[] in) {
        return Broadcast.of(op, in[0].shape(), in[1].shape());
    }
}
