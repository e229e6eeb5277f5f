package dev.starforge.bench.jmh;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.codec.MatrixCodec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Op;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Random;

/**
 * A device and tensors for JMH benchmarks, with random values from a fixed seed. Results are not checked here; {@code ./dev
 * conformance suite} does that, and {@code ./dev conformance speed} refuses to time a wrong result.
 */
final class BenchmarkDevice implements AutoCloseable {
    private final Device device;
    private final Scope scope;
    private final Random random = new Random(1);

    BenchmarkDevice(String backend, int threads) {
        device = Selection.choose(backend).backend().open(new DeviceOptions(0, threads, Path.of("")));
        scope = new Scope(device);
    }

    /** A tensor of normally distributed values. */
    Tensor drawn(DType type, long... dims) {
        Spec spec = new Spec(type, Shape.of(dims));
        Tensor tensor = scope.allocate(spec);
        float[] values = new float[Math.toIntExact(spec.shape().size())];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) random.nextGaussian();
        }
        ByteBuffer bytes = ByteBuffer.allocateDirect(Math.toIntExact(spec.bytes()));
        int columns = Math.toIntExact(spec.shape().last());
        MatrixCodec.of(type).encode(values, values.length / columns, columns, bytes);
        device.write(tensor, bytes.rewind());
        return tensor;
    }

    Tensor ints(long[] dims, int... values) {
        Tensor tensor = scope.allocate(Spec.i32(dims));
        device.write(tensor, values);
        return tensor;
    }

    /** An uninitialized output tensor. */
    Tensor[] outputs(Op op, Tensor... in) {
        Spec[] specs = new Spec[in.length];
        for (int i = 0; i < in.length; i++) {
            specs[i] = in[i].spec();
        }
        Spec[] given = op.outputs(specs);
        Tensor[] out = new Tensor[given.length];
        for (int i = 0; i < given.length; i++) {
            out[i] = scope.allocate(given[i]);
        }
        return out;
    }

    void run(Op op, Tensor[] in, Tensor[] out) {
        device.run(op, in, out);
        device.synchronize();
    }

    @Override
    public void close() {
        scope.close();
        device.close();
    }
}
