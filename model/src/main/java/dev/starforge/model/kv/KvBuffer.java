package dev.starforge.model.kv;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Plain;

/** The keys or the values of a layer [rows, heads, head dim], in float or int8; initially zero. */
sealed interface KvBuffer {
    static KvBuffer allocate(Scope scope, DType type, Shape shape) {
        if (type != DType.I8) {
            return new FloatKvBuffer(zero(scope, new Spec(type, shape)));
        }
        Tensor scales = zero(scope, new Spec(DType.F16, Shape.of(shape.dim(0), shape.dim(1))));
        return new Int8KvBuffer(scope.allocate(new Spec(type, shape)), scales);
    }

    private static Tensor zero(Scope scope, Spec spec) {
        Tensor tensor = scope.allocate(spec);
        Device.of(scope).run(new Plain.Fill(spec, 0), new Tensor[0], new Tensor[] {tensor});
        return tensor;
    }

    /** Returns the bytes of {@code heads} heads. */
    static long bytes(DType type, long heads, long headDim) {
        return type.bytes(heads * headDim) + (type == DType.I8 ? DType.F16.bytes(heads) : 0);
    }

    /** Writes x[N, heads, head dim] to rows i32[N]. */
    void store(Ops ops, Tensor rows, Tensor x);

    /** Returns rows {@code first} to {@code first + count - 1} as float values. */
    Tensor read(Ops ops, long first, long count);

    /** Rows in a float type. */
    record FloatKvBuffer(Tensor elements) implements KvBuffer {
        @Override
        public void store(Ops ops, Tensor rows, Tensor x) {
            ops.store(elements, rows, x);
        }

        @Override
        public Tensor read(Ops ops, long first, long count) {
            return part(elements, first, count);
        }
    }

    /** Rows of int8 values with an fp16 scale for each row and head. If a scale is zero, its values are arbitrary. */
    record Int8KvBuffer(Tensor quants, Tensor scales) implements KvBuffer {
        @Override
        public void store(Ops ops, Tensor rows, Tensor x) {
            ops.storeInt8(quants, scales, rows, x);
        }

        @Override
        public Tensor read(Ops ops, long first, long count) {
            return ops.decoded(part(quants, first, count), part(scales, first, count));
        }
    }

    private static Tensor part(Tensor rows, long first, long count) {
        long each = rows.shape().size() / rows.dim(0);
        return rows.view(first * each, rows.shape().withFirst(count));
    }

    /** Attention of q over keys and values of the same storage type. */
    static Tensor attend(Ops ops, Tensor q, KvBuffer k, KvBuffer v, Batch batch, float scale, int window) {
        if (k instanceof FloatKvBuffer(Tensor keys) && v instanceof FloatKvBuffer(Tensor values)) {
            return ops.attend(q, keys, values, batch, scale, window);
        }
        Int8KvBuffer keys = (Int8KvBuffer) k;
        Int8KvBuffer values = (Int8KvBuffer) v;
        return ops.run(
                new Fused.Attention(scale, window, batch.block()),
                q,
                keys.quants,
                values.quants,
                batch.starts(),
                batch.positions(),
                batch.tables(),
                keys.scales,
                values.scales);
    }
}
