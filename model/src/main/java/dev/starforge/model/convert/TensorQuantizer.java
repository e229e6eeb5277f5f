package dev.starforge.model.convert;

import dev.starforge.model.file.AtomicFile;
import dev.starforge.model.gguf.GgufWriter;
import dev.starforge.tensor.codec.BlockFormat;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.util.Arrays;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * Quantizes a tensor, some rows at a time, with an importance matrix or to nearest, and measures the error. Rows are independent, so threads share the rows of a
 * chunk. Errors are summed in the order of the rows.
 */
final class TensorQuantizer {
    private static final int ROWS = 16;

    private final GgufTensor tensor;
    private final BlockFormat wanted;
    private final BlockFormat to;
    private final int width;
    private final Optional<float[]> importance;
    private double squares;
    private double lost;
    private long worstRow;
    private double worst;

    /**
     * @param importance of the columns, [matrices, columns]; empty to round to nearest
     */
    TensorQuantizer(GgufTensor tensor, BlockFormat wanted, BlockFormat to, Optional<float[]> importance) {
        this.tensor = tensor;
        this.importance = to.usesImportance() ? importance : Optional.empty();
        this.wanted = wanted;
        this.to = to;
        this.width = Math.toIntExact(tensor.shape().last());
    }

    GgufWriter.GgufEntry entry() {
        return new GgufWriter.GgufEntry(tensor.name(), to, tensor.shape(), this::write);
    }

    /** Returns the report of the tensor. */
    QuantizationReport result() {
        return new QuantizationReport(
                tensor.name(),
                tensor.format(),
                wanted,
                to,
                entry().bytes(),
                relative(lost, squares),
                worstRow,
                worst,
                importance.isPresent());
    }

    private void write(WritableByteChannel out) throws IOException {
        long size = tensor.shape().size();
        int piece = GgufWriter.piece(tensor.shape());
        float[] values = new float[piece];
        ByteBuffer bytes = ByteBuffer.allocate((int) to.bytes(piece));
        for (long first = 0; first < size; first += piece) {
            int rows = (int) Math.min(piece, size - first) / width;
            tensor.values().read(first, values, rows * width);
            long firstRow = first / width;
            double[] before = new double[rows];
            double[] differences = new double[rows];
            IntStream.range(0, Math.ceilDiv(rows, ROWS))
                    .parallel()
                    .forEach(part -> encode(
                            values,
                            bytes,
                            firstRow,
                            part * ROWS,
                            Math.min(rows, (part + 1) * ROWS),
                            before,
                            differences));
            add(firstRow, before, differences);
            AtomicFile.put(out, bytes.clear().limit((int) to.bytes((long) rows * width)));
        }
    }

    private void encode(
            float[] values,
            ByteBuffer bytes,
            long firstRow,
            int begin,
            int end,
            double[] before,
            double[] differences) {
        float[] decoded = new float[width];
        for (int row = begin; row < end; row++) {
            int at = (int) to.bytes((long) row * width);
            if (importance.isPresent()) {
                to.encodeRow(values, row * width, columnImportance(firstRow + row), bytes, at);
            } else {
                to.encode(values, row * width, width, bytes, at);
            }
            to.decode(bytes, at, decoded, 0, width);
            for (int i = 0; i < width; i++) {
                double value = values[row * width + i];
                double difference = value - decoded[i];
                before[row] += value * value;
                differences[row] += difference * difference;
            }
        }
    }

    /** Returns the importance of the columns of the matrix that a row belongs to. */
    private float[] columnImportance(long row) {
        float[] all = importance.orElseThrow();
        long rows = tensor.shape().size() / width * width / all.length;
        int matrix = (int) (row / rows);
        return Arrays.copyOfRange(all, matrix * width, (matrix + 1) * width);
    }

    private void add(long firstRow, double[] before, double[] differences) {
        for (int row = 0; row < before.length; row++) {
            squares += before[row];
            lost += differences[row];
            if (relative(differences[row], before[row]) > worst) {
                worst = relative(differences[row], before[row]);
                worstRow = firstRow + row;
            }
        }
    }

    private static double relative(double lost, double squares) {
        return squares == 0 ? 0 : Math.sqrt(lost / squares);
    }
}
