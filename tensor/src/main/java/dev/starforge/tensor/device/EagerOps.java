package dev.starforge.tensor.device;

import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Ops;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiFunction;

/** Runs each operation at once, on one device, in one scope. */
public final class EagerOps implements Ops {
    private final Device device;
    private final Scope scope;
    private final Precision precision;
    private final Fallback fallback;
    private final Thread owner = Thread.currentThread();
    private final Map<String, Long> fallbacks = new TreeMap<>();

    public EagerOps(Device device, Scope scope, Precision precision, Fallback fallback) {
        if (scope.device() != device) {
            throw new DeviceException(
                    "ops: the scope belongs to " + scope.device().name() + ", not to " + device.name());
        }
        this.device = device;
        this.scope = scope;
        this.precision = precision;
        this.fallback = fallback;
    }

    @Override
    public Tensor[] runAll(Op op, Tensor... in) {
        if (Thread.currentThread() != owner) {
            throw new TensorException(op.name() + ": these ops belong to thread " + owner.getName() + ", not to "
                    + Thread.currentThread().getName());
        }
        Spec[] specs = new Spec[in.length];
        for (int i = 0; i < in.length; i++) {
            specs[i] = in[i].spec();
            in[i].storage(); // throws if it was released
        }
        Spec[] outputs = op.outputs(specs);
        Support support = device.supports(op, specs);
        if (support == Support.NONE) {
            throw new DeviceException(op.name() + ": " + device.name() + " cannot run it on " + Arrays.toString(specs));
        }
        if (op instanceof Fused fused && (fallback.off().contains(op.getClass()) || support == Support.EXPANDED)) {
            return expand(fused, in);
        }
        Tensor[] out = new Tensor[outputs.length];
        for (int i = 0; i < out.length; i++) {
            out[i] = scope.allocate(outputs[i]);
        }
        device.run(op, in, out);
        return out;
    }

    private Tensor[] expand(Fused op, Tensor... in) {
        if (!fallback.allowed()) {
            throw new DeviceException(
                    op.name() + ": " + device.name() + " has no kernel for it and fallback is forbidden");
        }
        if (fallbacks.merge(op.name(), 1L, Long::sum) == 1) {
            fallback.log().accept(op.name() + " runs as its expansion on " + device.name());
        }
        return scope.within(() -> op.expand(this, in));
    }

    /** The number of times each operation ran as its expansion. */
    public Map<String, Long> fallbacks() {
        return Map.copyOf(fallbacks);
    }

    @Override
    public Tensor reshape(Tensor x, Shape shape) {
        if (x.shape().size() != shape.size()) {
            throw new ShapeException("reshape: " + x.shape() + " cannot be viewed as " + shape);
        }
        return x.view(0, shape);
    }

    @Override
    public Tensor block(Tensor x, BiFunction<Ops, Tensor, Tensor> body) {
        return scope.within(() -> body.apply(this, x));
    }

    @Override
    public Scope scope() {
        return scope;
    }

    @Override
    public Ops shapesOnly() {
        return new NullOps(device, precision, Fallback.QUIET);
    }

    @Override
    public Precision precision() {
        return precision;
    }
}
