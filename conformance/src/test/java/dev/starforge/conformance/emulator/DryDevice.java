package dev.starforge.conformance.emulator;

import dev.starforge.kernels.Dispatch;
import dev.starforge.kernels.Launch;
import dev.starforge.kernels.Launcher;
import dev.starforge.kernels.Sibling;
import dev.starforge.kernels.Variant;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;

/** A device without memory that reports the variants that {@link EmulatedDevice} would launch, and compiles and runs nothing. */
final class DryDevice implements Device, Launcher {
    private record NoMemory(long bytes) implements Memory {}

    private final GpuModel model;
    private final Consumer<Variant> launched;
    private final Dispatch dispatch = new Dispatch(this);
    private final Scope scratch = new Scope(this);

    DryDevice(GpuModel model, Consumer<Variant> launched) {
        this.model = model;
        this.launched = launched;
    }

    @Override
    public String name() {
        return "dry";
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Dispatch.supports(op, in);
    }

    @Override
    public long workspace(Op op, Spec... in) {
        return Dispatch.workspace(model.siblings(), op, in);
    }

    @Override
    public long workspaceBytes() {
        return Dispatch.WORKSPACE;
    }

    @Override
    public void run(Op op, Tensor[] in, Tensor[] out) {
        dispatch.run(op, in, out);
    }

    @Override
    public void launch(Launch launch) {
        launched.accept(launch.variant());
    }

    @Override
    public void zero(Tensor tensor) {}

    @Override
    public void copy(Tensor from, Tensor to) {}

    @Override
    public Scope scratch() {
        return scratch;
    }

    @Override
    public Tensor constant(int... values) {
        return scratch.allocate(Spec.i32(values.length));
    }

    @Override
    public boolean supportsClusters() {
        return false;
    }

    @Override
    public int multiprocessors() {
        return model.multiprocessors();
    }

    @Override
    public Set<Sibling> siblings() {
        return model.siblings();
    }

    @Override
    public int sharedLimit() {
        return model.sharedLimit();
    }

    @Override
    public boolean matmul(Plain.MatMul op, Tensor a, Tensor b, List<Tensor> addends, Tensor c) {
        return false;
    }

    @Override
    public Memory reserve(long bytes) {
        return new NoMemory(bytes);
    }

    @Override
    public void release(Memory memory) {
        dispatch.flush();
    }

    @Override
    public void write(Tensor to, ByteBuffer from) {
        dispatch.flush();
        if (Dispatch.hasWeightTiles(to.spec())) {
            dispatch.pack(to);
        }
    }

    /** Leaves {@code to} unchanged. */
    @Override
    public void read(Tensor from, ByteBuffer to) {
        dispatch.flush();
        if (Dispatch.hasWeightTiles(from.spec())) {
            dispatch.unpack(from, scratch, (_, _) -> {});
        }
    }

    @Override
    public void close() {
        dispatch.flush();
        scratch.close();
    }
}
