package dev.starforge.bench.fuzz;

import dev.starforge.model.ModelException;
import dev.starforge.model.file.Safetensors;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.gguf.GgufValue;
import dev.starforge.model.gguf.GgufWriter;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * Seeded mutations of valid weight files. Each must be read, or refused with {@link ModelException}; anything else, such as an
 * {@code OutOfMemoryError} in a small heap, fails the run. {@code main} takes the number of cases and the seed.
 */
final class WeightFileFuzz {
    private static final long[] INTERESTING = {
        0,
        1,
        -1,
        2,
        7,
        8,
        31,
        32,
        255,
        256,
        65535,
        1 << 20,
        Integer.MAX_VALUE,
        Integer.MIN_VALUE,
        1L << 32,
        1L << 40,
        1L << 61,
        1L << 62,
        Long.MAX_VALUE,
        Long.MIN_VALUE,
        Long.MAX_VALUE - 31
    };

    private final Path file;
    private final byte[] valid;
    private final Consumer<Path> reader;
    private final long seed;
    private int drawn;
    private int refused;

    private WeightFileFuzz(Path file, Consumer<Path> reader, long seed) throws IOException {
        this.file = file;
        this.valid = Files.readAllBytes(file);
        this.reader = reader;
        this.seed = seed;
    }

    public static void main(String[] args) throws IOException {
        int cases = args.length > 0 ? Integer.parseInt(args[0]) : 100_000;
        long seed = args.length > 1 ? Long.parseLong(args[1]) : 1;
        Path folder = Files.createTempDirectory("fuzz");
        for (WeightFileFuzz fuzz : List.of(gguf(folder, seed), safetensors(folder, seed))) {
            int refused = fuzz.run(cases);
            System.out.println(fuzz.file.getFileName() + ": " + cases + " cases, " + refused + " refused, "
                    + (cases - refused) + " read");
            Files.delete(fuzz.file);
        }
        Files.delete(folder);
    }

    static WeightFileFuzz gguf(Path folder, long seed) throws IOException {
        Path file = folder.resolve("fuzz.gguf");
        Map<String, GgufValue> metadata = new LinkedHashMap<>();
        metadata.put("general.architecture", GgufValue.string("llama"));
        metadata.put("general.alignment", GgufValue.u32(32));
        metadata.put("llama.block_count", GgufValue.u32(2));
        metadata.put("eps", GgufValue.f32(1e-5f));
        metadata.put("flag", GgufValue.bool(true));
        metadata.put("tokens", new GgufValue.StringArray(List.of("a", "b", "<0x0A>")));
        metadata.put("scores", GgufValue.NumberArray.of(1f, 2, 3));
        metadata.put("types", GgufValue.NumberArray.of(1, 2, 3));
        GgufWriter.write(
                file,
                metadata,
                List.of(
                        GgufWriter.GgufEntry.of("a", BlockFormat.F32, Shape.of(2, 3), new float[6]),
                        GgufWriter.GgufEntry.of("b", BlockFormat.Q8_0, Shape.of(2, 32), new float[64]),
                        GgufWriter.GgufEntry.of("c", BlockFormat.Q4_K, Shape.of(256), new float[256]),
                        GgufWriter.GgufEntry.of("d", BlockFormat.F16, Shape.of(1, 2, 2, 2), new float[8])));
        return new WeightFileFuzz(file, WeightFileFuzz::readGguf, seed);
    }

    static WeightFileFuzz safetensors(Path folder, long seed) throws IOException {
        Path file = folder.resolve("fuzz.safetensors");
        SafetensorsFile.write(
                file,
                List.of(
                        SafetensorsFile.SafetensorsData.of("a", Shape.of(2, 3), new float[6]),
                        SafetensorsFile.SafetensorsData.of("b.weight", Shape.of(4), 1, 2, 3, 4),
                        new SafetensorsFile.SafetensorsData("c", "BF16", Shape.of(3, 1), ByteBuffer.allocate(6)),
                        new SafetensorsFile.SafetensorsData("d", "F8_E4M3", Shape.of(5), ByteBuffer.allocate(5)),
                        new SafetensorsFile.SafetensorsData("e", "I64", Shape.of(), ByteBuffer.allocate(8))));
        return new WeightFileFuzz(file, WeightFileFuzz::readSafetensors, seed);
    }

    private static void readGguf(Path path) {
        try (GgufFile file = GgufFile.open(path)) {
            file.tensors().keySet().forEach(file::readFloats);
        }
    }

    private static void readSafetensors(Path path) {
        try (Safetensors file = Safetensors.open(path)) {
            file.tensors().keySet().forEach(file::readFloats);
        }
    }

    /** Runs the cases and prints how many files were refused. */
    int run(int cases) throws IOException {
        for (int i = 0; i < cases; i++) {
            byte[] mutant = mutant();
            Files.write(file, mutant);
            try {
                reader.accept(file);
            } catch (ModelException expected) {
                refused++;
            } catch (RuntimeException | Error wrong) {
                throw new AssertionError("seed " + seed + ", case " + i + ": " + wrong, wrong);
            }
        }
        return refused;
    }

    /** Makes one to four changes: a bit, a byte, a boundary value, a truncation, a range doubled or removed. */
    private byte[] mutant() {
        byte[] bytes = valid.clone();
        for (int changes = 1 + draw(4); changes > 0 && bytes.length > 0; changes--) {
            int at = draw(draw(2) == 0 ? bytes.length : Math.min(bytes.length, 400));
            switch (draw(6)) {
                case 0 -> bytes[at] ^= (byte) (1 << draw(8));
                case 1 -> bytes[at] = (byte) draw(256);
                case 2, 3 -> {
                    long number = INTERESTING[draw(INTERESTING.length)];
                    for (int i = 0; i < (draw(2) == 0 ? 4 : 8) && at + i < bytes.length; i++) {
                        bytes[at + i] = (byte) (number >>> 8 * i);
                    }
                }
                case 4 -> bytes = Arrays.copyOf(bytes, draw(4) == 0 ? at : bytes.length + draw(40));
                default -> bytes = splice(bytes, at);
            }
        }
        return bytes;
    }

    private byte[] splice(byte[] bytes, int at) {
        int to = draw(bytes.length);
        byte[] spliced = Arrays.copyOf(bytes, at + bytes.length - to);
        System.arraycopy(bytes, to, spliced, at, bytes.length - to);
        return spliced;
    }

    private int draw(int bound) {
        return Integer.remainderUnsigned(Philox.words(drawn++, 0, 0, 0, (int) seed, (int) (seed >>> 32))[0], bound);
    }
}
