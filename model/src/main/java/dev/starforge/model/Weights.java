package dev.starforge.model;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Puts named tensors of a source on a device, piece by piece, so that the host never holds more than one piece. Matrices
 * are stored as the run's {@link Precision} says, vectors in float32. Hands out projections, with the adapter's update
 * where it has one: that is all a model knows of LoRA.
 */
final class Weights {
    private static final int PIECE = 4 << 20;

    private final WeightSource source;
    private final Scope scope;
    private final Precision precision;
    private final Adapter adapter;
    private final List<Part> parts = new ArrayList<>();

    Weights(WeightSource source, Scope scope, Precision precision, Adapter adapter) {
        this.source = source;
        this.scope = scope;
        this.precision = precision;
        this.adapter = adapter;
    }

    /** A projection from {@code in} to {@code out} channels, with its bias if {@code bias} says so. */
    Projection projection(String path, int in, int out, boolean bias) {
        Projection projection = new Projection.Linear(matrix(path + ".weight", out, in));
        if (bias) {
            projection = new Projection.Biased(projection, vector(path + ".bias", out));
        }
        return adapter.apply(path, projection, in, out);
    }

    Tensor matrix(String name, int rows, int columns) {
        return named(name, new Spec(precision.storage(), Shape.of(rows, columns)));
    }

    /** The gated experts {@code path}.0, .1, ..., whose three matrices end in these names. */
    ExpertStack experts(String path, int experts, int width, int inner, String gate, String up, String down) {
        return new ExpertStack(
                stack(path, gate, experts, inner, width),
                stack(path, up, experts, inner, width),
                stack(path, down, experts, width, inner),
                adapter.expertUpdates(path, experts, width, 2 * inner, false),
                adapter.expertUpdates(path, experts, inner, width, true));
    }

    private Tensor stack(String path, String name, int experts, int rows, int columns) {
        Shape each = Shape.of(rows, columns);
        for (int e = 0; e < experts; e++) {
            checkShape(source, expert(path, e, name), each);
        }
        Tensor stack = scope.allocate(new Spec(precision.storage(), Shape.of(experts, rows, columns)));
        for (int e = 0; e < experts; e++) {
            fill(source, expert(path, e, name), stack.view(e * each.size(), each), scope);
        }
        parts.add(new Part(
                IntStream.range(0, experts).mapToObj(e -> expert(path, e, name)).toList(), stack));
        return stack;
    }

    private static String expert(String path, int e, String name) {
        return path + "." + e + "." + name + ".weight";
    }

    Tensor vector(String name, int size) {
        return named(name, Spec.f32(size));
    }

    private Tensor named(String name, Spec spec) {
        Tensor tensor = load(source, name, spec, scope);
        parts.add(new Part(List.of(name), tensor));
        return tensor;
    }

    /** Everything that was loaded, in the order of loading. */
    List<Part> parts() {
        return parts;
    }

    /** Rotary frequencies, rounded as the run's precision says. */
    Tensor rotary(float... frequencies) {
        float[] rounded = frequencies.clone();
        DType type = precision.rotary();
        for (int i = 0; i < rounded.length && type != DType.F32; i++) {
            rounded[i] = type.widen(type.narrow(rounded[i]));
        }
        return constant(rounded);
    }

    /** A table computed here rather than stored. */
    Tensor constant(float... values) {
        Tensor tensor = scope.allocate(Spec.f32(values.length));
        scope.device().write(tensor, values);
        return tensor;
    }

    static Tensor load(WeightSource source, String name, Spec wanted, Scope scope) {
        checkShape(source, name, wanted.shape());
        Tensor tensor = scope.allocate(wanted);
        fill(source, name, tensor, scope);
        return tensor;
    }

    /** Before anything is allocated: a config must not make us ask for more than its file holds. */
    private static void checkShape(WeightSource source, String name, Shape wanted) {
        if (!source.holds(name, wanted)) {
            throw new ModelException(
                    source.path(),
                    "tensor " + name + ": the config asks for " + wanted + ", the file has " + source.shape(name));
        }
    }

    private static void fill(WeightSource source, String name, Tensor tensor, Scope scope) {
        if (!scope.device().holdsValues()) {
            return;
        }
        Shape wanted = tensor.shape();
        float[] values = new float[(int) Math.min(PIECE, wanted.size())];
        ByteBuffer bytes = ByteBuffer.allocateDirect(
                        values.length * tensor.dtype().bytes())
                .order(ByteOrder.LITTLE_ENDIAN);
        for (long at = 0; at < wanted.size(); at += values.length) {
            int count = (int) Math.min(values.length, wanted.size() - at);
            source.read(name, at, values, count);
            scope.device()
                    .write(tensor.view(at, Shape.of(count)), stored(values, count, tensor.dtype(), bytes.clear()));
        }
    }

    private static ByteBuffer stored(float[] values, int count, DType type, ByteBuffer bytes) {
        for (int i = 0; i < count; i++) {
            if (type == DType.F32) {
                bytes.putFloat(values[i]);
            } else {
                bytes.putShort(type.narrow(values[i]));
            }
        }
        return bytes.flip();
    }
}
