package dev.starforge.train.verify;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.op.Op;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * A device that compares every operation with another device, on the same inputs. So running a model on it tests every
 * operation of the model. Each combination of operation and shapes is compared once. Steps are not captured, since
 * intermediate results of a captured step cannot be read.
 */
final class ComparedDevice extends ForwardingDevice {
    private final Device reference;
    private final Set<List<Object>> compared = new HashSet<>();
    private final Map<String, Double> errors = new TreeMap<>();

    ComparedDevice(Device device, Device reference) {
        super(device);
        this.reference = reference;
    }

    /**
     * The largest relative error of each operation, as a share of its largest output; infinite for integers that
     * differ.
     */
    Map<String, Double> errors() {
        return errors;
    }

    @Override
    public void replay(Object key, Runnable step) {
        step.run();
    }

    @Override
    public void run(Op op, Tensor[] in, Tensor[] out) {
        List<Object> what = new ArrayList<>(List.of(op));
        Arrays.stream(in).map(Tensor::spec).forEach(what::add);
        if (!compared.add(what)) {
            super.run(op, in, out);
            return;
        }
        try (Scope scope = new Scope(reference)) {
            Tensor[] inputs = Arrays.stream(in).map(each -> copy(each, scope)).toArray(Tensor[]::new);
            Tensor[] outputs =
                    Arrays.stream(out).map(each -> scope.allocate(each.spec())).toArray(Tensor[]::new);
            super.run(op, in, out);
            reference.run(op, inputs, outputs);
            double worst = 0;
            for (int i = 0; i < out.length; i++) {
                worst = Math.max(worst, error(out[i], outputs[i]));
            }
            for (int i = 0; i < in.length; i++) {
                worst = op.mutates(i) ? Math.max(worst, error(in[i], inputs[i])) : worst;
            }
            errors.merge(op.name(), worst, Math::max);
        }
    }

    private Tensor copy(Tensor tensor, Scope scope) {
        Tensor copy = scope.allocate(tensor.spec());
        ByteBuffer bytes = bytes(device(), tensor);
        reference.write(copy, bytes);
        return copy;
    }

    private static ByteBuffer bytes(Device device, Tensor tensor) {
        ByteBuffer bytes =
                ByteBuffer.allocateDirect(Math.toIntExact(tensor.bytes())).order(ByteOrder.LITTLE_ENDIAN);
        device.read(tensor, bytes);
        return bytes.rewind();
    }

    private double error(Tensor ours, Tensor theirs) {
        ByteBuffer got = bytes(device(), ours);
        ByteBuffer wanted = bytes(reference, theirs);
        if (!ours.dtype().isFloat()) {
            return got.equals(wanted) ? 0 : Double.POSITIVE_INFINITY;
        }
        double largest = 0;
        double difference = 0;
        Spec spec = ours.spec();
        for (int i = 0; i < spec.shape().size(); i++) {
            float expected = element(wanted, spec.dtype(), i);
            float actual = element(got, spec.dtype(), i);
            if (Float.compare(expected, actual) == 0 || expected == actual) {
                largest = Float.isFinite(expected) ? Math.max(largest, Math.abs(expected)) : largest;
            } else if (!Float.isFinite(expected) || !Float.isFinite(actual)) {
                return Double.POSITIVE_INFINITY;
            } else {
                largest = Math.max(largest, Math.abs(expected));
                difference = Math.max(difference, Math.abs((double) expected - actual));
            }
        }
        return difference == 0 ? 0 : difference / largest;
    }

    private static float element(ByteBuffer bytes, DType type, int i) {
        return type == DType.F32 ? bytes.getFloat(4 * i) : type.widen(bytes.getShort(2 * i));
    }
}
