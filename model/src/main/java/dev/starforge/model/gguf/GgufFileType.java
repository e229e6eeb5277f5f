package dev.starforge.model.gguf;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What a GGUF file is mostly of, and what each of its tensors then is: llama.cpp's mixtures without an importance matrix. Q4_K is its
 * Q4_K_M, as the short name is there, too: the tensors that suffer most have six bits. Vectors, norms and routers stay as they are.
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

    /** The number that stands for it under {@code general.file_type}. */
    public int id() {
        return id;
    }

    /**
     * A model whose tensors are to be quantized.
     *
     * @param experts of a block; 0 where it has none
     * @param tied whether the embeddings are the output, too
     */
    public record QuantizationMix(GgufFileType type, int layers, int experts, boolean tied) {
        private static final int EIGHT = 8;

        /** The type of a tensor, were its rows whole blocks of it; empty tensors of no matter. */
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

        /** The first and the last eighth of the layers, and every third between them. */
        private boolean hasMoreBits(int layer) {
            int eighth = layers / 8;
            return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
        }
    }

    /** Whether a tensor is quantized at all. */
    public static boolean quantizes(String name, Shape shape) {
        return shape.rank() > 1
                && name.endsWith("weight")
                && !name.contains("_norm.weight")
                && !name.contains("ffn_gate_inp");
    }

    /** The nearest type with smaller blocks where a row is not whole blocks; 16-bit floats where none has rows like these. */
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
