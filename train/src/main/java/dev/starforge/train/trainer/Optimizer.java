package dev.starforge.train.trainer;

import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Training;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * AdamW over named parameters (Loshchilov and Hutter 2019), with both moments in float32 or in 8 bits (Dettmers et al.
 * 2022). Its state is the moments and the update count.
 */
final class Optimizer implements AutoCloseable {
    private static final int ZEROS = 1 << 20;

    private final Map<String, Tensor> parameters;
    private final Device device;
    private final TrainerSettings settings;
    private final Map<String, Tensor> state = new LinkedHashMap<>();
    private final Scope session;
    private final Tensor rate;
    private int updates;

    Optimizer(Map<String, Tensor> parameters, Device device, TrainerSettings settings) {
        this.parameters = parameters;
        this.device = device;
        this.settings = settings;
        session = new Scope(device);
        rate = session.allocate(Spec.f32(3));
        parameters.forEach((name, parameter) -> {
            if (settings.eightBit()) {
                state.put("m." + name, zeros(Training.AdamW8.quants(parameter.shape())));
                state.put("v." + name, zeros(Training.AdamW8.quants(parameter.shape())));
                state.put("scales." + name, zeros(Training.AdamW8.scales(parameter.shape())));
            } else {
                state.put("m." + name, zeros(parameter.spec()));
                state.put("v." + name, zeros(parameter.spec()));
            }
        });
    }

    private Tensor zeros(Spec spec) {
        Tensor tensor = session.allocate(spec);
        long size = device.holdsValues() ? spec.shape().size() : 0;
        for (long at = 0; at < size; at += ZEROS) {
            int count = (int) Math.min(ZEROS, size - at);
            device.write(
                    tensor.view(at, Shape.of(count)),
                    ByteBuffer.allocateDirect(count * spec.dtype().bytes()));
        }
        return tensor;
    }

    /**
     * The norm of the gradients before clipping, [1]. It is not finite if a gradient or a loss in {@code losses} [n] is
     * not.
     *
     * @param scale divisor of the gradients
     */
    static Tensor norm(Ops ops, List<Tensor> gradients, Tensor losses, double scale) {
        Tensor norm = ops.scale(ops.run(new Plain.Norm(), gradients.toArray(Tensor[]::new)), (float) (1 / scale));
        // 0 * x is NaN if x is not finite, else 0
        return ops.add(norm, ops.scale(ops.run(new Plain.Sum(Plain.Sum.Over.LAST), losses), 0));
    }

    /**
     * Updates the parameters, or leaves them unchanged if the norm is not finite. Does not wait for the device.
     *
     * @param gradients divided by {@code scale} one after the other
     */
    void update(Ops ops, List<Tensor> gradients, Tensor norm, double scale, double learningRate) {
        float inverse = (float) (1 / scale);
        int number = updates + 1;
        device.write(rate, (float) learningRate, (float) (1 - Math.pow(settings.beta1(), number)), (float)
                (1 - Math.pow(settings.beta2(), number)));
        if (inverse != 1) { // out of memory can happen only here, before any update
            ops.scope()
                    .within(() -> gradients.stream()
                            .map(Tensor::spec)
                            .max(Comparator.comparingLong(Spec::bytes))
                            .map(ops.scope()::allocate));
        }
        int i = 0;
        for (Map.Entry<String, Tensor> parameter : parameters.entrySet()) {
            List<Tensor> in = new ArrayList<>(List.of(parameter.getValue()));
            in.add(state.get("m." + parameter.getKey()));
            in.add(state.get("v." + parameter.getKey()));
            if (settings.eightBit()) {
                in.add(state.get("scales." + parameter.getKey()));
            }
            Tensor gradient = gradients.get(i++);
            ops.scope().within(() -> {
                in.addAll(List.of(inverse == 1 ? gradient : ops.scale(gradient, inverse), norm, rate));
                ops.runAll(settings.update(parameter.getValue().shape()), in.toArray(Tensor[]::new));
                return in;
            });
        }
    }

    /** The moments by name, to be saved and restored with {@link #updates}. */
    Map<String, Tensor> state() {
        return state;
    }

    long stateBytes() {
        return state.values().stream().mapToLong(Tensor::bytes).sum();
    }

    long reservedBytes() {
        return session.reservedBytes();
    }

    int updates() {
        return updates;
    }

    /** Sets the number of updates, used for bias correction. */
    void restore(int count) {
        updates = count;
    }

    @Override
    public void close() {
        session.close();
    }
}
