package dev.starforge.model.gguf;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The file type of a GGUF file, which determines the type of each tensor: llama.cpp's quantization mixes without an
 * importance matrix. Q4_K is Q4_K_M, as in llama.cpp: the most sensitive tensors have 6 bits. Vectors, norms and
 * routers are not quantized.
 */
public enum GgufFileType {
    Q4_0(2, BlockFormat.Q4_0),
    Q8_0(7, BlockFormat.Q8_0),
    Q4_K(15, BlockFormat.Q4_K),
    Q6_K(18, BlockFormat.Q6_K);

    private static final Pattern BLOCK = Pattern.compile("blk\\.(\\d+)\\.(.+)");
    private static final Pattern VALUES = Pattern.compile("attn_(v|qkv|kv_b)\\.weight");

    private final int id;
    private final BlockFormat format;

    GgufFileType(int id, BlockFormat format) {
        this.id = id;
        this.format = format;
    }

    /** The value of {@code general.file_type}. */
    public int id() {
        return id;
    }

    /**
     * The types of the tensors of a model to be quantized.
     *
     * @param experts experts per block; 0 for a dense model
     * @param tied true if the embeddings are also the output matrix
     */
    public record QuantizationMix(GgufFileType type, int layers, int experts, boolean tied) {
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
            String part = block.group(2);
            boolean ofValues = VALUES.matcher(part).matches();
            if (experts == EIGHT && (ofValues || part.equals("attn_k.weight"))) {
                return BlockFormat.Q8_0;
            }
            if (type != Q4_K) {
                return type.format;
            }
            if (experts == EIGHT && part.equals("attn_output.weight")) {
                return BlockFormat.Q5_K;
            }
            boolean sensitive = ofValues || part.startsWith("ffn_down");
            return sensitive && hasMoreBits(Integer.parseInt(block.group(1))) ? BlockFormat.Q6_K : type.format;
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
            case Q4_K -> BlockFormat.Q5_0;
            case Q5_K -> BlockFormat.Q5_1;
            case Q6_K -> BlockFormat.Q8_0;
            default -> BlockFormat.F16;
        };
        return shape.last() % smaller.blockElements() == 0 ? smaller : BlockFormat.F16;
    }
}
