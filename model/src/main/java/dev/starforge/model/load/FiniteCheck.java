package dev.starforge.model.load;

import dev.starforge.model.ModelException;
import dev.starforge.model.file.WeightSource;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.codec.BlockFormat;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Optional;

/** Checks that all values of a tensor are finite, at the speed of reading. NaN weights make every output NaN. */
final class FiniteCheck {
    private static final int PIECE = 1 << 20;
    private static final int F32_EXPONENT = 0x7f80_0000;

    private final WeightSource source;

    FiniteCheck(WeightSource source) {
        this.source = source;
    }

    /**
     * Checks a tensor. Thread-safe.
     *
     * @throws ModelException if a value is not finite; it names the tensor and the element
     */
    void require(String name) {
        long width = source.shape(name).last();
        long rows = source.shape(name).size() / width;
        int step = Math.toIntExact(Math.max(1, PIECE / width));
        Optional<DType> type = source.storedType(name).filter(stored -> !stored.isPlanar());
        float[] values = new float[Math.toIntExact(Math.min(step, rows) * width)];
        for (long row = 0; row < rows; row += step) {
            int count = Math.toIntExact(Math.min(step, rows - row) * width);
            if (type.isPresent()) {
                ByteBuffer bytes = ByteBuffer.allocate(
                                Math.toIntExact(type.get().bytes(count)))
                        .order(ByteOrder.LITTLE_ENDIAN);
                source.readRows(name, row, bytes);
                widen(type.get(), bytes.rewind(), values, count);
            } else {
                synchronized (source) {
                    source.read(name, row * width, values, count);
                }
            }
            if (!allFinite(values, count)) {
                throw notFinite(name, row * width, values);
            }
        }
    }

    private static void widen(DType type, ByteBuffer bytes, float[] values, int count) {
        if (type == DType.F32) {
            bytes.asFloatBuffer().get(values, 0, count);
        } else {
            BlockFormat.of(type).decode(bytes, 0, values, 0, count);
        }
    }

    /** Without a branch in the loop, so that it is compiled to vectors. */
    private static boolean allFinite(float[] values, int count) {
        int bad = 0;
        for (int i = 0; i < count; i++) {
            bad |= (Float.floatToRawIntBits(values[i]) & F32_EXPONENT) == F32_EXPONENT ? 1 : 0;
        }
        return bad == 0;
    }

    private ModelException notFinite(String name, long first, float[] values) {
        int i = 0;
        while (Float.isFinite(values[i])) {
            i++;
        }
        return new ModelException(
                source.path(),
                "tensor " + name + ": element " + (first + i) + " is " + values[i]
                        + ": the file is damaged, or the model diverged when it was trained; use another copy");
    }
}
