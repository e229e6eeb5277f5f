package dev.starforge.model.convert;

import dev.starforge.model.ModelException;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.gguf.GgufValue;
import dev.starforge.model.gguf.GgufWriter;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * The importance matrix of a model: for each weight matrix the sum of the squares of its input activations over calibration
 * text, column by column. A quantizer weights the error of each column with the mean. The file is that of llama-imatrix
 * (GGUF).
 *
 * @param entries by llama.cpp's name of the weight
 * @param datasets the files of the text
 * @param chunks the number of sequences
 * @param chunkSize tokens of each
 */
public record ImportanceMatrix(SortedMap<String, Entry> entries, List<String> datasets, int chunks, int chunkSize) {
    private static final String SUMS = ".in_sum2";
    private static final String COUNTS = ".counts";
    private static final String DATASETS = "imatrix.datasets";
    private static final String CHUNK_COUNT = "imatrix.chunk_count";
    private static final String CHUNK_SIZE = "imatrix.chunk_size";

    /**
     * The sums of a weight.
     *
     * @param sums [matrices, columns]: one matrix, or the experts of a stack
     * @param counts rows of activations that each matrix saw
     */
    public record Entry(double[] sums, double[] counts) {
        int columns() {
            return sums.length / counts.length;
        }
    }

    public ImportanceMatrix {
        entries = new TreeMap<>(entries);
        datasets = List.copyOf(datasets);
    }

    /**
     * Returns the mean square of the inputs of a matrix, [matrices, columns]; 1 for experts that no token chose. Empty if there
     * is no entry of that name.
     */
    Optional<float[]> importance(Path file, String name, Shape shape) {
        Entry entry = entries.get(name);
        if (entry == null) {
            return Optional.empty();
        }
        long matrices = shape.rank() == 2 ? 1 : shape.dim(0);
        if (entry.columns() != shape.last() || entry.counts().length != matrices) {
            throw new ModelException(
                    file,
                    "importance of " + name + ": " + entry.counts().length + " x " + entry.columns() + ", expected "
                            + matrices + " x " + shape.last() + "; is it of another model?");
        }
        float[] means = new float[entry.sums().length];
        for (int i = 0; i < means.length; i++) {
            double count = entry.counts()[i / entry.columns()];
            means[i] = count == 0 ? 1 : (float) (entry.sums()[i] / count);
        }
        return Optional.of(means);
    }

    /** Writes the file that llama-quantize reads with --imatrix. */
    public void write(Path file) {
        Map<String, GgufValue> metadata = new LinkedHashMap<>();
        metadata.put("general.type", GgufValue.string("imatrix"));
        metadata.put(DATASETS, new GgufValue.StringArray(datasets));
        metadata.put(CHUNK_COUNT, GgufValue.u32(chunks));
        metadata.put(CHUNK_SIZE, GgufValue.u32(chunkSize));
        List<GgufWriter.GgufEntry> tensors = new ArrayList<>();
        entries.forEach((name, entry) -> {
            int matrices = entry.counts().length;
            Shape sums = Shape.of(matrices, entry.columns());
            tensors.add(GgufWriter.GgufEntry.of(name + SUMS, BlockFormat.F32, sums, floats(entry.sums())));
            Shape counts = Shape.of(matrices, 1);
            tensors.add(GgufWriter.GgufEntry.of(name + COUNTS, BlockFormat.F32, counts, floats(entry.counts())));
        });
        GgufWriter.write(file, metadata, tensors);
    }

    private static float[] floats(double... values) {
        float[] floats = new float[values.length];
        for (int i = 0; i < values.length; i++) {
            floats[i] = (float) values[i];
        }
        return floats;
    }

    /** Reads a file of {@link #write} or of llama-imatrix. */
    public static ImportanceMatrix read(Path path) {
        try (GgufFile file = GgufFile.open(path)) {
            if (!file.string("general.type", "").equals("imatrix") || !file.hasKey(CHUNK_COUNT)) {
                throw new ModelException(
                        path, "is not an importance matrix: general.type is not imatrix, or it has no " + CHUNK_COUNT);
            }
            SortedMap<String, Entry> entries = new TreeMap<>();
            for (String name : file.tensors().keySet()) {
                if (name.endsWith(SUMS)) {
                    String weight = name.substring(0, name.length() - SUMS.length());
                    entries.put(weight, entry(file, name, weight + COUNTS));
                }
            }
            if (entries.isEmpty()) {
                throw new ModelException(path, "is an importance matrix without entries");
            }
            return new ImportanceMatrix(
                    entries,
                    file.hasKey(DATASETS) ? file.strings(DATASETS) : List.of(),
                    file.integer(CHUNK_COUNT),
                    file.integer(CHUNK_SIZE, 0));
        }
    }

    private static Entry entry(GgufFile file, String sumsName, String countsName) {
        double[] sums = numbers(file, sumsName);
        double[] counts = numbers(file, countsName);
        if (counts.length == 0 || sums.length == 0 || sums.length % counts.length != 0) {
            throw new ModelException(
                    file.path(),
                    sumsName + ": " + sums.length + " sums, expected a multiple of its " + counts.length + " counts");
        }
        return new Entry(sums, counts);
    }

    private static double[] numbers(GgufFile file, String name) {
        float[] values = file.readFloats(name);
        double[] numbers = new double[values.length];
        for (int i = 0; i < values.length; i++) {
            if (!(values[i] >= 0 && Float.isFinite(values[i]))) {
                throw new ModelException(
                        file.path(),
                        name + ": element " + i + " is " + values[i] + ", expected a number of at least 0");
            }
            numbers[i] = values[i];
        }
        return numbers;
    }
}
