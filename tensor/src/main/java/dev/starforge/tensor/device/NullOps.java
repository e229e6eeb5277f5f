package dev.starforge.tensor.device;

import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Ops;
import java.nio.ByteBuffer;
import java.util.function.BiFunction;

/**
 * Computes shapes only. It runs the same forward and backward pass with the same allocator, and the support and workspace
 * that the chosen device declares, without using the device. Its memory plan is therefore exact, not an estimate.
 */
public final class NullOps implements Ops {
    private final NullDevice device;
    private final EagerOps ops;

    public NullOps(Device like, Precision precision, Fallback fallback) {
        device = new NullDevice(like);
        ops = device.ops(new Scope(device), precision, fallback);
    }

    /**
     * Memory that a step needs.
     *
     * @param tensorBytes peak bytes of tensors
     * @param workspaceBytes scratch memory of the largest operation
     */
    public record Plan(long tensorBytes, long workspaceBytes) {
        public long totalBytes() {
            return tensorBytes + workspaceBytes;
        }
    }

    /** The plan for everything run so far. */
    public Plan plan() {
        return new Plan(scope().peakBytes(), device.workspaceBytes());
    }

    @Override
    public Tensor[] runAll(Op op, Tensor... in) {
        return ops.runAll(op, in);
    }

    @Override
    public Tensor reshape(Tensor x, Shape shape) {
        return ops.reshape(x, shape);
    }

    @Override
    public Tensor block(Tensor x, BiFunction<Ops, Tensor, Tensor> body) {
        return ops.block(x, body);
    }

    @Override
    public Scope scope() {
        return ops.scope();
    }

    @Override
    public Ops shapesOnly() {
        return ops.shapesOnly();
    }

    @Override
    public Precision precision() {
        return ops.precision();
    }

    private record NullMemory(long bytes) implements Memory {}

    private static final class NullDevice implements Device {
        private final Device like;
        private long workspace;

        NullDevice(Device like) {
            this.like = like;
        }

        @Override
        public String name() {
            return like.name() + " (plan)";
        }

        @Override
        public Support supports(Op op, Spec... in) {
            return like.supports(op, in);
        }

        @Override
        public long workspace(Op op, Spec... in) {
            return like.workspace(op, in);
        }

        @Override
        public long workspaceBytes() {
            return workspace;
        }

        @Override
        public void run(Op op, Tensor[] in, Tensor[] out) {
            Spec[] specs = new Spec[in.length];
            for (int i = 0; i < in.length; i++) {
                specs[i] = in[i].spec();
            }
            workspace = Math.max(workspace, like.workspace(op, specs));
        }

        @Override
        public Memory reserve(long bytes) {
            return new NullMemory(bytes);
        }

        @Override
        public void release(Memory memory) {}

        @Override
        public boolean holdsValues() {
            return false;
        }

        @Override
        public void write(Tensor to, ByteBuffer from) {}

        @Override
        public void read(Tensor from, ByteBuffer to) {
            throw new DeviceException("read: " + from + " has no values on " + name());
        }

        @Override
        public void close() {}
    }
}
