package dev.starforge.model.file;

import dev.starforge.model.ModelException;
import dev.starforge.model.Quantization;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.codec.BlockFormat;
import dev.starforge.tensor.codec.Int8Groups;
import dev.starforge.tensor.codec.Nf4;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.regex.Pattern;

/**
 * Quantizes the projections of another source in chunks while they are read, so that a whole matrix is never in memory.
 * It reports a quantized type as stored type, so a loader copies the weights as if the file contained them. Read as
 * floats, the weights are the dequantized values. Rows that do not divide into whole blocks are float32 with these
 * dequantized values, so results do not depend on the block size. Tensors that are quantized in the file to at most about as
 * many bits stay as they are ({@link Quantization#isSmallerThan}). For tensors that it does not quantize, it reports
 * only quantized stored types and leaves the choice to the loader otherwise.
 *
 * <p>{@link PlaneEncoder} needs one pass. Floats of double quantization need another pass before, since they depend on
 * all absmax values of a matrix.
 */
public final class QuantizingSource implements WeightSource {
    private static final Pattern PROJECTION = Pattern.compile(
            "(?!.*\\.(shared_expert_)?gate\\.weight$)" + "(model\\.layers|transformer\\.h)\\.\\d+\\..+\\.weight");

    /** Elements per step of the pass over the absmax values (at least 64 rows). */
    private static final int PIECE = 1 << 20;

    private static final int BLOCK = Nf4.DEFAULT_BLOCK;

    private final WeightSource source;
    private final Quantization quantization;
    private String doubledName = "";
    private float[] doubled = {};

    public QuantizingSource(WeightSource source, Quantization quantization) {
        this.source = source;
        this.quantization = quantization;
    }

    @Override
    public boolean changesValues(String name) {
        return !quantization.equals(Quantization.NONE)
                && PROJECTION.matcher(name).matches()
                && source.shape(name).rank() == 2
                && source.storedType(name)
                        .filter(DType::isQuantized)
                        .filter(stored -> !quantization.isSmallerThan(stored))
                        .isEmpty();
    }

    @Override
    public Path path() {
        return source.path();
    }

    @Override
    public Shape shape(String name) {
        return source.shape(name);
    }

    @Override
    public boolean has(String name, Shape wanted) {
        return source.has(name, wanted);
    }

    @Override
    public Optional<DType> storedType(String name) {
        if (!changesValues(name)) {
            return source.storedType(name).filter(DType::isQuantized);
        }
        return Optional.of(quantization.storage(source.shape(name).last()));
    }

    @Override
    public Optional<FileRegion> region(String name) {
        return changesValues(name) ? Optional.empty() : source.region(name);
    }

    @Override
    public void readRows(String name, long first, ByteBuffer into) {
        if (!changesValues(name)) {
            source.readRows(name, first, into);
            return;
        }
        DType type = storedType(name).orElseThrow();
        int width = Math.toIntExact(source.shape(name).last());
        int rows = Math.toIntExact(into.remaining() / type.bytes(width));
        ByteBuffer out = into.slice().order(ByteOrder.LITTLE_ENDIAN);
        if (type == DType.F32) {
            float[] values = new float[rows * width];
            read(name, first * width, values, values.length);
            out.asFloatBuffer().put(values);
        } else {
            encode(name, first, rows, width, out);
        }
        into.position(into.limit());
    }

    @Override
    public void readPlanes(String name, Consumer<ByteBuffer> piece) {
        if (changesValues(name)) {
            PlaneEncoder.encode(source, name, new Spec(storedType(name).orElseThrow(), shape(name)), piece);
        } else {
            source.readPlanes(name, piece);
        }
    }

    @Override
    public void read(String name, long first, float[] out, int count) {
        if (!changesValues(name)) {
            readFloats(name, first, out, count);
            return;
        }
        Shape shape = source.shape(name);
        int width = Math.toIntExact(shape.last());
        int each = quantization instanceof Quantization.Nf4 ? rowsOfWholeBlocks(width) : 1;
        long begin = first / width / each * each;
        long end = Math.min(shape.dim(0), Math.ceilDiv(Math.ceilDiv(first + count, (long) width), each) * each);
        float[] decoded = decoded(name, begin, Math.toIntExact(end - begin), width);
        System.arraycopy(decoded, Math.toIntExact(first - begin * width), out, 0, count);
    }

    /** Returns dequantized rows. The range begins at a block and ends at a block or at the end of the matrix. */
    private float[] decoded(String name, long first, int rows, int width) {
        if (quantization instanceof Quantization.Int8(int group)) {
            return groups(name, first, rows, width, group).decode();
        }
        int blocks = Math.ceilDiv(rows * width, BLOCK);
        ByteBuffer encoded =
                ByteBuffer.allocate(blocks * DType.NF4.blockBytes()).order(ByteOrder.LITTLE_ENDIAN);
        encode(name, first, rows, width, encoded);
        float[] values = new float[blocks * BLOCK];
        BlockFormat.NF4.decode(encoded, 0, values, 0, values.length);
        return values;
    }

    private void encode(String name, long first, int rows, int width, ByteBuffer out) {
        switch (quantization) {
            case Quantization.Nf4(boolean twice) -> nf4(name, first, rows, width, twice, out);
            case Quantization.Int8(int group) -> bytes(groups(name, first, rows, width, group), out);
            case Quantization.None none -> throw new ModelException(path(), "tensor " + name + " is not quantized");
        }
    }

    /**
     * Encodes NF4 blocks. Values are quantized with the block's own absmax; the stored absmax is the one for
     * dequantization.
     */
    private void nf4(String name, long first, int rows, int width, boolean twice, ByteBuffer out) {
        int blocks = Math.ceilDiv(rows * width, BLOCK);
        float[] values = new float[blocks * BLOCK];
        readFloats(name, first * width, values, rows * width);
        try {
            BlockFormat.NF4.encode(values, 0, values.length, out, 0);
        } catch (TensorException wrong) {
            throw wrong(name, first, wrong);
        }
        if (twice) {
            float[] magnitudes = magnitudes(name);
            int from = Math.toIntExact(first * width / BLOCK);
            for (int b = 0; b < blocks; b++) {
                out.putFloat(b * DType.NF4.blockBytes(), magnitudes[from + b]);
            }
        }
    }

    /** Returns the smallest number of rows that is a multiple of the block size. */
    private static int rowsOfWholeBlocks(int width) {
        return BLOCK / Math.min(BLOCK, Integer.lowestOneBit(width));
    }

    private synchronized float[] magnitudes(String name) {
        if (!doubledName.equals(name)) {
            Shape shape = source.shape(name);
            int width = Math.toIntExact(shape.last());
            float[] all = new float[Math.toIntExact(Math.ceilDiv(shape.size(), BLOCK))];
            int step = BLOCK * Math.max(1, PIECE / (BLOCK * width));
            float[] values = new float[(int) Math.min(step, shape.dim(0)) * width];
            for (long row = 0; row < shape.dim(0); row += step) {
                int count = (int) Math.min(step, shape.dim(0) - row) * width;
                readFloats(name, row * width, values, count);
                try {
                    Nf4.magnitudes(values, count, all, (int) (row * width / BLOCK));
                } catch (TensorException wrong) {
                    throw wrong(name, row, wrong);
                }
            }
            doubled = Nf4.doubled(all);
            doubledName = name;
        }
        return doubled;
    }

    private Int8Groups groups(String name, long first, int rows, int width, int group) {
        float[] values = new float[rows * width];
        readFloats(name, first * width, values, values.length);
        try {
            return Int8Groups.encode(values, rows, width, group);
        } catch (TensorException wrong) {
            throw wrong(name, first, wrong);
        }
    }

    /** Writes blocks of Q8_0: a scale and 32 quantized values. */
    private static void bytes(Int8Groups groups, ByteBuffer out) {
        int size = DType.Q8_0.blockElements();
        int each = Math.ceilDiv(groups.columns(), groups.group());
        for (int row = 0; row < groups.rows(); row++) {
            for (int c = 0; c < groups.columns(); c += size) {
                out.putShort(groups.scales()[row * each + c / groups.group()]);
                out.put(groups.quants(), row * each * groups.group() + c, size);
            }
        }
    }

    private ModelException wrong(String name, long row, TensorException wrong) {
        return new ModelException(path(), "tensor " + name + " from row " + row + ": " + wrong.getMessage(), wrong);
    }

    /** Synchronized, because reading floats from a source is not thread-safe. */
    private void readFloats(String name, long first, float[] out, int count) {
        synchronized (source) {
            source.read(name, first, out, count);
        }
    }
}
