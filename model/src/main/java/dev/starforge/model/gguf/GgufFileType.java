package dev.starforge.model.gguf;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;
import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The file type of a GGUF file, which determines the type of each tensor: llama.cpp's quantization mixes. S, M and L say how
 * many of the sensitive tensors have more bits: those of attention values and of the MLP's down projections, and in the types
 * with fewest bits those of attention outputs. Vectors, norms and routers are not quantized.
 */
public enum GgufFileType {
    Q2_K(10, BlockFormat.Q2_K),
    Q3_K_S(11, BlockFormat.Q3_K),
    Q3_K_M(12, BlockFormat.Q3_K),
    Q3_K_L(13, BlockFormat.Q3_K),
    Q4_0(2, BlockFormat.Q4_0),
    Q4_1(3, BlockFormat.Q4_1),
    Q4_K_S(14, BlockFormat.Q4_K),
    Q4_K_M(15, BlockFormat.Q4_K),
    Q5_0(8, BlockFormat.Q5_0),
    Q5_1(9, BlockFormat.Q5_1),
    Q5_K_S(16, BlockFormat.Q5_K),
    Q5_K_M(17, BlockFormat.Q5_K),
    Q6_K(18, BlockFormat.Q6_K),
    Q8_0(7, BlockFormat.Q8_0);

    private static final Pattern BLOCK = Pattern.compile("blk\\.(\\d+)\\.(.+)");
    private static final Pattern VALUES = Pattern.compile("attn_(v|qkv|kv_b)\\.weight");

    private final int id;
    private final BlockFormat format;

    GgufFileType(int id, BlockFormat format) {
        this.id = id;
        this.format = format;
    }

    /** Returns the type of a name as llama-quantize takes it: any case, and Q3_K, Q4_K and Q5_K without a letter are the M types. */
    public static Optional<GgufFileType> named(String name) {
        String upper = name.toUpperCase(Locale.ROOT);
        return Arrays.stream(values())
                .filter(type -> type.name().equals(upper) || type.name().equals(upper + "_M"))
                .findFirst();
    }

    /** The value of {@code general.file_type}. */
    public int id() {
        return id;
    }

    /** The type of most tensors. */
    public BlockFormat format() {
        return format;
    }

    /**
     * The types of the tensors of a model to be quantized.
     *
     * @param queriesPerKey query heads that share a key head
     * @param experts experts per block; 0 for a dense model
     * @param tied true if the embeddings are also the output matrix
     * @param importance true if there is an importance matrix
     */
    public record QuantizationMix(
            GgufFileType type, int layers, int queriesPerKey, int experts, boolean tied, boolean importance) {
        private static final int EIGHT = 8;

        /** Returns the type of a tensor, assuming that its rows divide into whole blocks. */
        public BlockFormat wanted(String name, Shape shape) {
            if (name.equals("output.weight") || tied && name.equals("token_embd.weight")) {
                boolean fits = shape.last() % type.format.blockElements() == 0;
                return fits && type != Q8_0 ? BlockFormat.Q6_K : BlockFormat.Q8_0;
            }
            Matcher block = BLOCK.matcher(name);
            if (!block.matches()) {
                return type.format;
            }
            int layer = Integer.parseInt(block.group(1));
            String part = block.group(2);
            if (VALUES.matcher(part).matches()) {
                return experts == EIGHT ? BlockFormat.Q8_0 : values(layer);
            }
            if (part.equals("attn_k.weight") && experts == EIGHT) {
                return BlockFormat.Q8_0;
            }
            if (part.startsWith("ffn_down")) {
                return down(layer);
            }
            return part.equals("attn_output.weight") ? attentionOutput() : type.format;
        }

        private BlockFormat values(int layer) {
            return switch (type) {
                case Q2_K -> queriesPerKey >= 4 ? BlockFormat.Q4_K : BlockFormat.Q3_K;
                case Q3_K_M -> layer < 2 ? BlockFormat.Q5_K : BlockFormat.Q4_K;
                case Q3_K_L -> BlockFormat.Q5_K;
                case Q4_K_S -> layer < 4 ? BlockFormat.Q5_K : type.format;
                case Q4_K_M, Q5_K_M -> hasMoreBits(layer) ? BlockFormat.Q6_K : type.format;
                case Q3_K_S, Q4_0, Q4_1, Q5_0, Q5_1, Q5_K_S, Q6_K, Q8_0 -> type.format;
            };
        }

        private BlockFormat down(int layer) {
            boolean first = layer < layers / 8;
            return switch (type) {
                case Q2_K -> BlockFormat.Q3_K;
                case Q3_K_M -> layer < layers / 16 ? BlockFormat.Q5_K : BlockFormat.Q4_K;
                case Q3_K_L -> BlockFormat.Q5_K;
                case Q4_0 -> first && importance ? BlockFormat.Q4_1 : type.format;
                case Q5_0 -> first && importance ? BlockFormat.Q5_1 : type.format;
                case Q4_K_S -> first ? BlockFormat.Q5_K : type.format;
                case Q4_K_M, Q5_K_M -> hasMoreBits(layer) ? BlockFormat.Q6_K : type.format;
                case Q3_K_S, Q4_1, Q5_1, Q5_K_S, Q6_K, Q8_0 -> type.format;
            };
        }

        private BlockFormat attentionOutput() {
            return switch (type) {
                case Q2_K -> experts == EIGHT ? BlockFormat.Q5_K : BlockFormat.Q3_K;
                case Q3_K_M -> experts == EIGHT ? BlockFormat.Q5_K : BlockFormat.Q4_K;
                case Q3_K_L -> experts == EIGHT ? type.format : BlockFormat.Q5_K;
                case Q3_K_S, Q4_K_S, Q4_K_M -> experts == EIGHT ? BlockFormat.Q5_K : type.format;
                case Q4_0, Q4_1, Q5_0, Q5_1, Q5_K_S, Q5_K_M, Q6_K, Q8_0 -> type.format;
            };
        }

        /** Returns true for the first and the last eighth of the layers and every third layer between them. */
        private boolean hasMoreBits(int layer) {
            int eighth = layers / 8;
            return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
        }
    }

    /** Returns true if a tensor is quantized. */
    public static boolean quantizes(String name, Shape shape) {
        return shape.rank() > 1
                && name.endsWith("weight")
                && !name.contains("_norm.weight")
                && !name.contains("ffn_gate_inp");
    }

    /**
     * Returns {@code wanted} if rows divide into whole blocks of it, else the closest type with smaller blocks, else
     * F16.
     */
    public static BlockFormat fitting(BlockFormat wanted, Shape shape) {
        if (shape.last() % wanted.blockElements() == 0) {
            return wanted;
        }
        BlockFormat smaller = switch (wanted) {
            case Q2_K, Q3_K -> BlockFormat.Q4_0;
            case Q4_K -> BlockFormat.Q5_0;
            case Q5_K -> BlockFormat.Q5_1;
            case Q6_K -> BlockFormat.Q8_0;
            default -> BlockFormat.F16;
        };
        return shape.last() % smaller.blockElements() == 0 ? smaller : BlockFormat.F16;
    }
}
