package dev.starforge.cpu;

import dev.starforge.cpu.attention.Attention;
import dev.starforge.cpu.attention.AttentionGradient;
import dev.starforge.cpu.core.Panels;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.elementwise.Dropout;
import dev.starforge.cpu.elementwise.Elementwise;
import dev.starforge.cpu.elementwise.Gated;
import dev.starforge.cpu.machine.MachineCode;
import dev.starforge.cpu.matmul.Experts;
import dev.starforge.cpu.matmul.Lora;
import dev.starforge.cpu.matmul.Product;
import dev.starforge.cpu.optimizer.AdamW;
import dev.starforge.cpu.optimizer.AdamW8;
import dev.starforge.cpu.rowwise.CrossEntropy;
import dev.starforge.cpu.rowwise.LayerNorm;
import dev.starforge.cpu.rowwise.RmsNorm;
import dev.starforge.cpu.rowwise.Rope;
import dev.starforge.cpu.rowwise.Rows;
import dev.starforge.cpu.rowwise.Sample;
import dev.starforge.cpu.rowwise.Softmax;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Limits;
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
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * All operations use the Vector API; matmuls with weights use machine code if it is available. Tensors are in native
 * memory; kernels fetch strips and tiles of them into one heap array, compute there and store. Work is split by shape,
 * and no sum depends on the vector width, the threads or the other rows. The same inputs give the same bits on every
 * machine, but for products with NF4 and those that round activations: machine code has its own order for these.
 */
final class CpuDevice implements Device {
    private final MachineCode.Availability machine;
    private final Workers workers;
    private final Rope rope = new Rope();
    private final WriteProgress pieces = new WriteProgress();

    private final Map<Object, Optional<List<PreparedOp>>> steps =
            new HashMap<>(); // empty: ran once, to be recorded next
    private Optional<List<PreparedOp>> recorded = Optional.empty(); // the step that is being recorded

    /** One operation with everything that follows from its tensors. */
    private record PreparedOp(Op op, Spec[] specs, Tensor[] inputs, View[] in, View[] out, Scratch scratch) {}

    CpuDevice(int threads, MachineCode.Availability machine) {
        this.machine = machine;
        workers = new Workers(threads);
    }

    @Override
    public String name() {
        return "cpu";
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Support.NATIVE;
    }

    @Override
    public long workspace(Op op, Spec... in) {
        return scratch(op, in).bytes(workers.threads());
    }

    @Override
    public long workspaceBytes() {
        return workers.scratchBytes();
    }

    @Override
    public Memory reserve(long bytes) {
        return new HostMemory(bytes, source());
    }

    @Override
    public List<Memory> reserveAll(List<Long> bytes) {
        return HostMemory.all(bytes, source());
    }

    private HostMemory.HostAllocator source() {
        return machine.code()
                .<HostMemory.HostAllocator>map(code -> code::allocate)
                .orElse(HostMemory.HostAllocator.JAVA);
    }

    @Override
    public boolean maps(DType type) {
        return type.isFloat();
    }

    @Override
    public Memory map(DType type, FileRegion region) {
        return HostMemory.map(region);
    }

    @Override
    public void release(Memory memory) {
        HostMemory.free(memory);
    }

    @Override
    public void write(Tensor to, ByteBuffer from) {
        if (to.dtype().isQuantized()) {
            HostMemory.requireAll(to, from);
            write(to, 0, from);
        } else {
            HostMemory.write(to, from);
        }
    }

    @Override
    public void write(Tensor to, long from, ByteBuffer piece) {
        if (to.dtype().isQuantized()) {
            pieces.take(to, from, piece.remaining());
        }
        if (Panels.has(to.dtype())) {
            new View(to).write(workers, from, piece);
        } else {
            HostMemory.write(to, from, piece);
        }
    }

    @Override
    public void read(Tensor from, ByteBuffer to) {
        if (Panels.has(from.dtype())) {
            new View(from).read(workers, to);
        } else {
            HostMemory.read(from, to);
        }
    }

    /** Without a buffer: a step of generated text begins with some of these. */
    @Override
    public void write(Tensor to, int... values) {
        HostMemory.write(to, values);
    }

    /** The same on the way back. */
    @Override
    public int[] ints(Tensor from) {
        return HostMemory.ints(from);
    }

    @Override
    public void floats(Tensor from, float[] values) {
        HostMemory.floats(from, values);
    }

    @Override
    public Optional<Limits> limits(long bytes) {
        return Optional.of(Roofline.measure(workers, machine, bytes));
    }

    @Override
    public void close() {
        workers.close();
        machine.code().ifPresent(MachineCode::close);
    }

    private Scratch scratch(Op op, Spec... in) {
        return switch (op) {
            case Plain.MatMul o -> product(o, in[0], in[1]).scratch();
            case Routing.Route o -> Experts.routeScratch(in[0].shape());
            case Routing.ExpertMatMul o -> Experts.matmulScratch(machine, o, in[0], in[1]);
            case Routing.ExpertOuter o -> Experts.outerScratch(machine, in[0].shape(), in[1].shape());
            case Decoding.Sample o -> Sample.scratch(in[0].shape());
            case Fused.Rope o -> Rope.scratch(in[0].shape());
            case Fused.Attention o -> attention(o, in).scratch();
            case Fused.AttentionGrad o -> attention(o, in).scratch();
            case Layers.Linear o -> scratch(o, in);
            case Layers.AddMatMul o -> product(o.product(), in[0], in[1]).scratch();
            case Adapters o -> Lora.scratch(in[0].shape(), LoraInputs.of(in).b().shape());
            case Plain.Add _,
                    Plain.Mul _,
                    Plain.Affine _,
                    Plain.Map _,
                    Plain.MapGrad _,
                    Plain.Permute _,
                    Plain.Sum _,
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
                    Plain.Norm _,
                    Plain.AdamW _,
                    Routing.Group _,
                    Decoding.StoreInt8 _,
                    Training.Accumulate _,
                    Training.Dropout _,
                    Training.Noise _,
                    Training.AdamW8 _,
                    Fused.LayerNorm _,
                    Fused.LayerNormGrad _,
                    Fused.RmsNorm _,
                    Fused.RmsNormGrad _,
                    Fused.Gated _,
                    Fused.GatedGrad _,
                    Fused.CrossEntropy _,
                    Fused.CrossEntropyGrad _,
                    Layers.AddRmsNorm _,
                    Layers.AddLayerNorm _ -> Scratch.STRIPS;
        };
    }

    private Scratch scratch(Layers.Linear op, Spec... in) {
        Scratch most = Scratch.STRIPS;
        for (int i = 0; i < op.weights(); i++) {
            most = most.or(product(op.product(), in[0], in[1 + i]).scratch());
        }
        return most;
    }

    /** What follows a product goes over it once more while it is in the cache: beside reading the weights, that is nothing. */
    private void linear(Layers.Linear op, Spec[] specs, View[] in, View[] out) {
        for (int i = 0; i < op.weights(); i++) {
            View y = out[i];
            multiply(op.product(), new Spec[] {specs[0], specs[1 + i]}, new View[] {in[0], in[1 + i]}, y);
            if (op.bias()) {
                Elementwise.add(workers, Broadcast.ROW, y, in[op.biasOf(1 + i)], y);
            }
            if (op.fn() != Fn.IDENTITY) {
                Elementwise.map(workers, op.fn(), y, y);
            }
            if (op.residual()) {
                Elementwise.add(workers, Broadcast.SAME, in[op.residualInput()], y, y);
            }
        }
    }

    private Product product(Plain.MatMul op, Spec a, Spec b) {
        return Product.of(
                machine,
                op,
                a.dtype(),
                b.dtype(),
                a.shape().dim(op.transposeA() ? -1 : -2),
                b.shape().dim(op.transposeB() ? -2 : -1),
                a.shape().dim(op.transposeA() ? -2 : -1));
    }

    private void multiply(Plain.MatMul op, Spec[] specs, View[] in, View c) {
        Product product = product(op, specs[0], specs[1]);
        long sizeA = specs[0].shape().dim(-2) * specs[0].shape().dim(-1);
        long sizeB = specs[1].shape().dim(-2) * specs[1].shape().dim(-1);
        long sizeC = c.height * c.last;
        long batches = sizeC == 0 ? 0 : c.size / sizeC;
        for (long i = 0; i < batches; i++) {
            product.run(workers, in[0], i * sizeA, in[1], i * sizeB, c, i * sizeC);
        }
    }

    private static Attention attention(Fused.Attention op, Spec[] in) {
        Shape tables = AttentionInputs.of(in).tables().shape();
        return new Attention(op.scale(), op.window(), op.block(), in[0].shape(), in[1].shape(), tables);
    }

    private static AttentionGradient attention(Fused.AttentionGrad op, Spec[] in) {
        return new AttentionGradient(op.scale(), op.window(), op.block(), in[0].shape(), in[1].shape());
    }

    @Override
    public void run(Op op, Tensor[] inputs, Tensor[] outputs) {
        Spec[] specs = new Spec[inputs.length];
        for (int i = 0; i < specs.length; i++) {
            specs[i] = inputs[i].spec();
        }
        PreparedOp prepared = new PreparedOp(op, specs, inputs, View.of(inputs), View.of(outputs), scratch(op, specs));
        recorded.ifPresent(step -> step.add(prepared));
        run(prepared);
    }

    private void run(PreparedOp prepared) {
        workers.reserve(prepared.scratch);
        try {
            run(prepared.op, prepared.specs, prepared.inputs, prepared.in, prepared.out);
        } catch (InternalError fault) {
            throw HostMemory.cut(prepared.inputs, fault);
        }
    }

    /** Runs as it is the first time, when scopes grow, is recorded the second time, and from then on makes no tensors. */
    @Override
    public void replay(Object key, Runnable step) {
        Optional<List<PreparedOp>> recording = steps.get(key);
        if (recording == null) {
            step.run();
            steps.put(key, Optional.empty());
        } else if (recording.isPresent()) {
            recording.get().forEach(this::run);
        } else {
            recorded = Optional.of(new ArrayList<>());
            try {
                step.run();
                steps.put(key, recorded);
            } finally {
                recorded = Optional.empty();
            }
        }
    }

    @Override
    public void forget(Object key) {
        steps.remove(key);
    }

    private void run(Op op, Spec[] specs, Tensor[] inputs, View[] in, View[] out) {
        switch (op) {
            case Plain.Add o -> Elementwise.add(workers, broadcast(o, specs), in[0], in[1], out[0]);
            case Plain.Mul o -> Elementwise.mul(workers, broadcast(o, specs), in[0], in[1], out[0]);
            case Plain.Affine o -> Elementwise.affine(workers, o.scale(), o.shift(), in[0], out[0]);
            case Plain.Map o -> Elementwise.map(workers, o.fn(), in[0], out[0]);
            case Plain.MapGrad o -> Elementwise.mapGrad(workers, o.fn(), in[0], in[1], out[0]);
            case Plain.Cast o -> Elementwise.cast(workers, in[0], out[0]);
            case Plain.Fill o -> Elementwise.fill(workers, o.value(), out[0]);
            case Plain.MatMul o -> multiply(o, specs, in, out[0]);
            case Plain.Permute o -> Rows.permute(workers, o.axes(), specs[0].shape(), in[0], out[0]);
            case Plain.Sum o -> Rows.sum(workers, o.over(), in[0], out[0]);
            case Plain.Pick o -> Rows.pick(workers, in[0], in[1], out[0]);
            case Plain.Unpick o -> Rows.unpick(workers, in[0], in[1], out[0]);
            case Plain.Gather o -> Rows.gather(workers, in[0], inputs[0].dim(0), in[1], out[0]);
            case Plain.ScatterAdd o -> Rows.scatterAdd(workers, in[0], in[1], o.height(), out[0]);
            case Plain.Slice o -> Rows.slice(workers, o.from(), inputs[0].dim(0), in[0], out[0]);
            case Plain.Columns o -> Rows.columns(workers, o.from(), in[0], out[0]);
            case Plain.Pad o -> Rows.pad(workers, o.from(), in[0], out[0]);
            case Routing.Route o -> Experts.route(workers, o, in[0], out[0]);
            case Routing.Group o -> Experts.group(workers, in[0], GroupOutputs.of(out));
            case Routing.ExpertMatMul o -> Experts.matmul(workers, machine, o, in, out[0]);
            case Routing.ExpertOuter o -> Experts.outer(workers, machine, in, out[0]);
            case Plain.Concat o -> Rows.concat(workers, in, out[0]);
            case Plain.Store o -> Rows.store(workers, in[0], inputs[0].dim(0), in[1], in[2]);
            case Plain.Softmax o -> Softmax.softmax(workers, in[0], out[0]);
            case Plain.SoftmaxGrad o -> Softmax.softmaxGrad(workers, in[0], in[1], out[0]);
            case Plain.LogSumExp o -> Softmax.logSumExp(workers, in[0], out[0]);
            case Plain.Argmax o -> Softmax.argmax(workers, in[0], out[0]);
            case Plain.Mask o -> Attention.mask(workers, o.window(), o.block(), MaskInputs.of(in), out[0]);
            case Plain.Norm o -> AdamW.norm(workers, in, out[0]);
            case Plain.AdamW o -> AdamW.step(workers, o, AdamWInputs.of(in));
            case Decoding.Sample o -> new Sample(SampleInputs.of(in), SampleOutputs.of(out)).run(workers);
            case Decoding.StoreInt8 o -> Rows.storeInt8(workers, StoreInt8Inputs.of(in), inputs[0].dim(0));
            case Training.Accumulate o -> Elementwise.add(workers, Broadcast.SAME, in[0], in[1], in[0]);
            case Training.Dropout o -> Dropout.run(workers, o, NoiseInputs.of(in), out[0]);
            case Training.Noise o -> Dropout.noise(workers, o, NoiseInputs.of(in), in[4], out[0]);
            case Training.AdamW8 o -> AdamW8.step(workers, o, AdamW8Inputs.of(in));
            case Fused.LayerNorm o -> LayerNorm.forward(workers, o.eps(), in, LayerNormOutputs.of(out));
            case Fused.LayerNormGrad o -> LayerNorm.gradient(workers, LayerNormGradInputs.of(in), out);
            case Fused.RmsNorm o -> RmsNorm.forward(workers, o.eps(), in, out);
            case Fused.RmsNormGrad o -> RmsNorm.gradient(workers, RmsNormGradInputs.of(in), out);
            case Fused.Rope o -> rope.run(workers, o.magnitude(), o.inverse(), specs[0].shape(), in, out[0]);
            case Fused.Gated o -> Gated.forward(workers, o.fn(), in[0], in[1], out[0]);
            case Fused.GatedGrad o -> Gated.gradient(workers, o.fn(), in, out);
            case Fused.CrossEntropy o -> CrossEntropy.forward(workers, in, out);
            case Fused.CrossEntropyGrad o -> CrossEntropy.gradient(workers, CrossEntropyGradInputs.of(in), out[0]);
            case Fused.Attention o -> attention(o, specs).run(workers, AttentionInputs.of(in), out);
            case Fused.AttentionGrad o ->
                attention(o, specs).run(workers, AttentionGradInputs.of(in), AttentionGradOutputs.of(out));
            case Layers.Linear o -> linear(o, specs, in, out);
            case Layers.AddMatMul o -> {
                multiply(o.product(), specs, in, out[0]);
                Elementwise.add(workers, Broadcast.SAME, in[2], out[0], out[0]);
            }
            case Layers.AddRmsNorm o -> {
                AddRmsNormOutputs<View> sum = AddRmsNormOutputs.of(out);
                Elementwise.add(workers, Broadcast.SAME, in[0], in[1], sum.h());
                RmsNorm.forward(workers, o.eps(), new View[] {sum.h(), in[2]}, new View[] {sum.y(), sum.rstd()});
            }
            case Layers.AddLayerNorm o -> {
                AddLayerNormInputs<View> a = AddLayerNormInputs.of(in);
                AddLayerNormOutputs<View> sum = AddLayerNormOutputs.of(out);
                Elementwise.add(workers, Broadcast.SAME, a.x(), a.y(), sum.h());
                LayerNorm.forward(workers, o.eps(), new View[] {sum.h(), a.w(), a.b()}, sum.norm());
            }
            case Adapters.Lora o -> Lora.rows(workers, LoraInputs.of(in), out[0]);
            case Adapters.ExpertLora o -> Lora.experts(workers, ExpertLoraInputs.of(in), out[0]);
        }
    }

    private static Broadcast broadcast(Op op, Spec[] in) {
        return Broadcast.of(op, in[0].shape(), in[1].shape());
    }
}
