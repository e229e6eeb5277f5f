package dev.starforge.model;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.ShapeException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * How the frozen projections of a model are quantized while they are loaded, for training an adapter on them. What it is
 * for is fidelity: the numbers are those of the format, whoever decodes it, so an adapter fits the same base elsewhere. How
 * a device keeps them is another matter; see {@link #storage}.
 *
 * <p>Quantized are the matrices of the blocks, each by itself. Embeddings, norms, biases, the last projection and routers
 * stay, as bitsandbytes and HF have it. What its file has quantized already stays as it is.
 */
public sealed interface Quantization {
    Quantization NONE = new None();

    /** The type that holds the numbers as they are, in rows of whole blocks. */
    DType storage();

    /** The type of a matrix with so many columns: where they are not whole blocks, one that holds the same numbers. */
    default DType storage(long columns) {
        return columns % storage().blockElements() == 0 ? storage() : DType.F32;
    }

    /** What {@link #toString} wrote. */
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
                        "quantization: expected none, nf4, nf4-double or int8 with a group, got " + text);
        };
    }

    /** As the file has it. */
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
     * Blocks of 64 over the flattened matrix, as bitsandbytes has them.
     *
     * @param doubled whether their magnitudes are rounded to eight bits, too
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
     * Signed bytes, one half as a scale to each row and group. A group of 128 has a type of its own; any other, and 128 in rows
     * that are not whole groups, is so many blocks of Q8_0 with the same scale.
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
