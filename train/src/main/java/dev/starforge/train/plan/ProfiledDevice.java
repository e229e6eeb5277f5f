package dev.starforge.train.plan;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * A device that measures the time of operations between {@link #start} and {@link #stop}. It synchronizes before and
 * after each operation and subtracts the time of an operation on one element, so the total is longer than without
 * profiling. Operations inside a captured step are not measured, since synchronization is not possible there.
 */
public final class ProfiledDevice extends ForwardingDevice {
    private static final int CALIBRATED = 64;
    private static final int LARGEST_PRODUCT = 8192;
    private static final double LONG_ENOUGH = 5e-3;
    private static final int REPEATS = 5;

    private final LongSupplier nanoTime;
    private final Map<String, StepProfile.Row> rows = new HashMap<>();
    private boolean measuring;
    private double overhead;

    public ProfiledDevice(Device device, LongSupplier nanoTime) {
        super(device);
        this.nanoTime = nanoTime;
    }

    /** Starts measuring. */
    public void start() {
        try (Scope scope = new Scope(this)) {
            Tensor one = scope.allocate(Spec.f32(1));
            Op fill = new Plain.Fill(one.spec(), 0);
            overhead = Double.MAX_VALUE;
            for (int i = 0; i < CALIBRATED; i++) {
                overhead = Math.min(overhead, seconds(fill, new Tensor[0], new Tensor[] {one}));
            }
        }
        measuring = true;
    }

    /** Stops measuring. */
    public void stop() {
        measuring = false;
    }

    /** The measured times, longest first. */
    public List<StepProfile.Row> rows() {
        return rows.values().stream()
                .sorted((a, b) -> Double.compare(b.seconds(), a.seconds()))
                .toList();
    }

    @Override
    public void run(Op op, Tensor[] in, Tensor[] out) {
        if (!measuring) {
            super.run(op, in, out);
            return;
        }
        double took = Math.max(0, seconds(op, in, out) - overhead);
        String name = name(op, in, out);
        rows.merge(name, new StepProfile.Row(name, 1, took, flops(op, in, out)), StepProfile.Row::plus);
    }

    @Override
    public void replay(Object key, Runnable step) {
        boolean before = measuring;
        measuring = false;
        try {
            super.replay(key, step);
        } finally {
            measuring = before;
        }
    }

    private double seconds(Op op, Tensor[] in, Tensor[] out) {
        synchronize();
        long began = nanoTime.getAsLong();
        super.run(op, in, out);
        synchronize();
        return (nanoTime.getAsLong() - began) * 1e-9;
    }

    /** Names a product by its role and the shape of its weight, without what it is accumulated into. */
    private static String name(Op op, Tensor[] in, Tensor[] out) {
        if (op instanceof Layers.AddMatMul sum) {
            return name(sum.product(), in, out);
        }
        if (op instanceof Plain.MatMul product && in[0].shape().rank() == 2) {
            if (product.transposeA()) {
                return "MatMul dy^T x " + out[0].shape();
            }
            String type = in[1].dtype().isQuantized() ? " " + in[1].dtype() : "";
            return "MatMul " + (product.transposeB() ? "x W^T " : "dy W ") + in[1].shape() + type;
        }
        return op instanceof Layers.Linear linear && linear.weights() == 1
                ? "Linear " + in[1].shape() + (in[1].dtype().isQuantized() ? " " + in[1].dtype() : "")
                : op.name();
    }

    /** FLOP of products. Attention is not counted, since its FLOP depend on sequence lengths. */
    private static double flops(Op op, Tensor[] in, Tensor[] out) {
        return switch (op) {
            case Plain.MatMul o -> 2.0 * out[0].shape().size() * in[0].dim(o.transposeA() ? -2 : -1);
            case Layers.AddMatMul o -> flops(o.product(), in, out);
            case Routing.ExpertMatMul _ -> 2.0 * out[0].shape().size() * in[0].dim(-1);
            case Layers.Linear _ -> {
                double all = 0;
                for (Tensor y : out) {
                    all += 2.0 * y.shape().size() * in[0].dim(-1);
                }
                yield all;
            }
            default -> 0;
        };
    }

    /** Peak FLOP/s of products of a type, measured with square matrices of increasing size. */
    public double peak(DType type) {
        double best = 0;
        for (int n = 256; n <= LARGEST_PRODUCT; n *= 2) {
            double least = Double.MAX_VALUE;
            try (Scope scope = new Scope(this)) {
                Spec square = new Spec(type, Shape.of(n, n));
                Tensor[] in = {scope.allocate(square), scope.allocate(square)};
                for (Tensor x : in) {
                    super.run(new Plain.Fill(square, 1), new Tensor[0], new Tensor[] {x});
                }
                Tensor[] out = {scope.allocate(square)};
                for (int i = 0; i < REPEATS; i++) {
                    least = Math.min(least, seconds(new Plain.MatMul(false, true, type), in, out));
                }
            } catch (MemoryException _) {
                break;
            }
            best = Math.max(best, 2.0 * n * n * n / least);
            if (least > LONG_ENOUGH) {
                break;
            }
        }
        return best;
    }
}
