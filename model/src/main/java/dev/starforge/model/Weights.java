package dev.starforge.model;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Puts named tensors of a file on a device, piece by piece, so that the host never holds more than one piece. Matrices
 * are stored as the run's {@link Precision} says, vectors in float32. Hands out projections, with the adapter's update
 * where it has one: that is all a model knows of LoRA.
 */
final class Weights {
    private static final int PIECE = 16 << 20;

    private final SafetensorsFile file;
    private final Scope scope;
    private final Precision precision;
    private final Adapter adapter;

    Weights(SafetensorsFile file, Scope scope, Precision precision, Adapter adapter) {
        this.file = file;
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
        return load(file, name, new Spec(precision.storage(), Shape.of(rows, columns)), scope);
    }

    Tensor vector(String name, int size) {
        return load(file, name, Spec.f32(size), scope);
    }

    /** Rotary frequencies, rounded as the run's precision says. */
    Tensor rotary(float... frequencies) {
        float[] rounded = frequencies.clone();
        DType type = precision.rotary();
        for (int i = 0; i < rounded.length && type != DType.F32; i++) {
            rounded[i] = type.widen(type.narrow(rounded[i]));
        }
        Tensor tensor = scope.allocate(Spec.f32(rounded.length));
        scope.device().write(tensor, rounded);
        return tensor;
    }

    static Tensor load(SafetensorsFile file, String name, Spec wanted, Scope scope) {
        SafetensorsFile.Stored stored = file.tensor(name);
        if (!stored.shape().equals(wanted.shape())) {
            throw new ModelException(
                    file.path(),
                    "tensor " + name + ": the config asks for " + wanted.shape() + ", the file has " + stored.shape());
        }
        DType type = switch (stored.dtype()) {
            case "F32" -> DType.F32;
            case "F16" -> DType.F16;
            case "BF16" -> DType.BF16;
            default ->
                throw new ModelException(
                        file.path(), "tensor " + name + ": expected F32, F16 or BF16, got " + stored.dtype());
        };
        Tensor tensor = scope.allocate(wanted);
        long size = wanted.shape().size();
        int piece = PIECE / 4;
        for (long at = 0; at < size; at += piece) {
            int count = (int) Math.min(piece, size - at);
            ByteBuffer bytes = buffer(count, type);
            file.read(stored, at * type.bytes(), bytes);
            scope.device().write(tensor.view(at, Shape.of(count)), convert(bytes.flip(), type, wanted.dtype(), count));
        }
        return tensor;
    }

    private static ByteBuffer convert(ByteBuffer bytes, DType from, DType to, int count) {
        if (from == to) {
            return bytes;
        }
        ByteBuffer converted = buffer(count, to);
        for (int i = 0; i < count; i++) {
            float value = from == DType.F32 ? bytes.getFloat(4 * i) : from.widen(bytes.getShort(2 * i));
            if (to == DType.F32) {
                converted.putFloat(value);
            } else {
                converted.putShort(to.narrow(value));
            }
        }
        return converted.flip();
    }

    private static ByteBuffer buffer(int count, DType type) {
        return ByteBuffer.allocateDirect(count * type.bytes()).order(ByteOrder.LITTLE_ENDIAN);
    }
}
