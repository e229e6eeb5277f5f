package dev.starforge.tensor;

import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.EagerOps;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.reference.ReferenceBackend;
import java.nio.file.Path;
import java.util.List;

/** A reference device, a scope on it, and the few things tests do with them. */
public final class OnReference implements AutoCloseable {
    public final Device device = new ReferenceBackend().open(new DeviceOptions(0, 1, Path.of("")));
    public final Scope scope = new Scope(device);
    public final EagerOps ops = device.ops(scope, Precision.FLOAT32, Fallback.QUIET);

    public Tensor floats(Shape shape, float... values) {
        Tensor tensor = scope.allocate(new Spec(DType.F32, shape));
        device.write(tensor, values);
        return tensor;
    }

    public Tensor row(float... values) {
        return floats(Shape.of(values.length), values);
    }

    public Tensor ints(int... values) {
        Tensor tensor = scope.allocate(Spec.i32(values.length));
        device.write(tensor, values);
        return tensor;
    }

    /** Random values, the same for the same stream. */
    public Tensor normal(int site, long... dims) {
        float[] values = new float[Math.toIntExact(Shape.of(dims).size())];
        for (int i = 0; i < values.length; i++) {
            values[i] = Philox.normal(1, site, i);
        }
        return floats(Shape.of(dims), values);
    }

    public float[] read(Tensor tensor) {
        return device.floats(tensor);
    }

    public List<float[]> read(List<Tensor> tensors) {
        return tensors.stream().map(device::floats).toList();
    }

    @Override
    public void close() {
        scope.close();
        device.close();
    }
}
