package dev.starforge.model;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Plane;
import dev.starforge.tensor.ShapeException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * How the frozen projections of a QLoRA base are quantized while they are loaded. The values are exactly those of the format, so
 * an adapter trained here fits the same base in other programs. {@link #storage} is the type in memory.
 *
 * <p>The matrices of the transformer blocks are quantized. Embeddings, norms, biases, the LM head and routers are not, as in
 * bitsandbytes and HF. Weights that the file has quantized to about as many bits or fewer stay unchanged; those with more are
 * dequantized and quantized again.
 */
public sealed interface Quantization {
    Quantization NONE = new None();

    /** Returns the type that stores the quantized values, for rows of whole blocks. */
    DType storage();

    /** Returns the type for a matrix with {@code columns} columns: if they are not whole blocks, one that stores the same values. */
    default DType storage(long columns) {
        return columns % storage().blockElements() == 0 ? storage() : DType.F32;
    }

    /** Types of up to this much more than the bits of {@link #storage} count as equally small. */
    double SAME_SIZE = 1.2;

    /** Returns true if a type has more bits than this one, by more than a fifth: weights stored in it are quantized again. */
    default boolean isSmallerThan(DType stored) {
        return bits(stored) > SAME_SIZE * bits(storage());
    }

    /** Returns the bits per weight of a type, with those of its scales. */
    static double bits(DType type) {
        long size = 1 << 10; // a multiple of all blocks
        long bytes = type.planes(size, size).stream().mapToLong(Plane::bytes).sum();
        return 8.0 * bytes / (size * size);
    }

    /** Parses the result of {@link #toString}. */
    static Quantization parse(String text) {
        Matcher groups = Pattern.compile("int8-(\\d{1,9})").matcher(text);
        if (groups.matches()) {
            return new Int8(Integer.parseInt(groups.group(1)));
        }
        return switch (text) {
            case "none" -> NONE;
            case "nf4" -> new Nf4(false);
            case "nf4-double" -> new Nf4(true);
            default ->
                throw new ShapeException(
                        "quantization: expected none, nf4, nf4-double or int8-N (N weights per scale, such as int8-128), got "
                                + text);
        };
    }

    /** No quantization: weights as in the file. */
    record None() implements Quantization {
        @Override
        public DType storage() {
            return DType.F32;
        }

        @Override
        public String toString() {
            return "none";
        }
    }

    /**
     * NF4 in blocks of 64 over the flattened matrix, as in bitsandbytes.
     *
     * @param doubled whether the absmax values are quantized to 8 bits too (double quantization)
     */
    record Nf4(boolean doubled) implements Quantization {
        @Override
        public DType storage() {
            return doubled ? DType.NF4_DOUBLE : DType.NF4;
        }

        @Override
        public String toString() {
            return doubled ? "nf4-double" : "nf4";
        }
    }

    /**
     * Int8 with an fp16 scale for each row and group. Groups of 128 have their own type. Other groups, and rows that are not whole
     * groups, are stored as blocks of Q8_0 with equal scales.
     *
     * @param group columns that share a scale
     */
    record Int8(int group) implements Quantization {
        public Int8 {
            if (group < 1 || group % DType.Q8_0.blockElements() != 0) {
                throw new ShapeException(
                        "int8 groups: expected a multiple of " + DType.Q8_0.blockElements() + ", got " + group);
            }
        }

        @Override
        public DType storage() {
            return group == DType.INT8_128.blockElements() ? DType.INT8_128 : DType.Q8_0;
        }

        @Override
        public DType storage(long columns) {
            return Stream.of(storage(), DType.Q8_0)
                    .filter(type -> columns % type.blockElements() == 0)
                    .findFirst()
                    .orElse(DType.F32);
        }

        @Override
        public String toString() {
            return "int8-" + group;
        }
    }
}
