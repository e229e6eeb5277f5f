package dev.starforge.cuda;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.DeviceException;

/** Every kernel the host side launches: its name in C and the source file it is in. */
enum Kernel {
    ADD("elementwise", "Add"),
    MUL("elementwise", "Mul"),
    AFFINE("elementwise", "Affine"),
    MAP("elementwise", "Map"),
    MAP_GRAD("elementwise", "MapGrad"),
    CAST("elementwise", "Cast"),
    FILL("elementwise", "Fill"),
    MATMUL_F32("matmul", "MatMul_F32"),
    MATMUL_F16("matmul", "MatMul_F16"),
    MATMUL_BF16("matmul", "MatMul_BF16"),
    MATMUL_FEW_F32("matmul", "MatMulFew_F32"),
    MATMUL_FEW_F16("matmul", "MatMulFew_F16"),
    MATMUL_FEW_BF16("matmul", "MatMulFew_BF16"),
    PERMUTE("rows", "Permute"),
    SUM_LAST("rows", "SumLast"),
    SUM_LEADING("rows", "SumLeading"),
    PICK("rows", "Pick"),
    UNPICK("rows", "Unpick"),
    COLUMNS("rows", "Columns"),
    PAD("rows", "Pad"),
    GATHER("rows", "Gather"),
    SCATTER_ADD("rows", "ScatterAdd"),
    STORE("rows", "Store"),
    ROUTE("experts", "Route"),
    GROUP("experts", "Group"),
    EXPERT_MATMUL_F32("experts", "ExpertMatMul_F32"),
    EXPERT_MATMUL_F16("experts", "ExpertMatMul_F16"),
    EXPERT_MATMUL_BF16("experts", "ExpertMatMul_BF16"),
    EXPERT_MATMUL_FEW_F32("experts", "ExpertMatMulFew_F32"),
    EXPERT_MATMUL_FEW_F16("experts", "ExpertMatMulFew_F16"),
    EXPERT_MATMUL_FEW_BF16("experts", "ExpertMatMulFew_BF16"),
    EXPERT_OUTER("experts", "ExpertOuter"),
    SOFTMAX("softmax", "Softmax"),
    SOFTMAX_GRAD("softmax", "SoftmaxGrad"),
    LOG_SUM_EXP("softmax", "LogSumExp"),
    ARGMAX("softmax", "Argmax"),
    SAMPLE("sample", "Sample"),
    NORM_PART("adamw", "NormPart"),
    NORM("adamw", "Norm"),
    ADAMW("adamw", "AdamW"),
    ADAMW8("adamw8", "AdamW8"),
    DROPOUT("dropout", "Dropout"),
    NOISE("dropout", "Noise"),
    LAYER_NORM("layernorm", "LayerNorm"),
    LAYER_NORM_GRAD("layernorm", "LayerNormGrad"),
    LAYER_NORM_GRAD_WEIGHTS("layernorm", "LayerNormGradWeights"),
    RMS_NORM("rmsnorm", "RmsNorm"),
    RMS_NORM_GRAD("rmsnorm", "RmsNormGrad"),
    RMS_NORM_GRAD_WEIGHTS("rmsnorm", "RmsNormGradWeights"),
    ROPE("rope", "Rope"),
    GATED("gated", "Gated"),
    GATED_GRAD("gated", "GatedGrad"),
    CROSS_ENTROPY("crossentropy", "CrossEntropy"),
    CROSS_ENTROPY_GRAD("crossentropy", "CrossEntropyGrad"),
    MASK("attention", "Mask"),
    ATTENTION_F32("attention", "Attention_F32"),
    ATTENTION_F16("attention", "Attention_F16"),
    ATTENTION_BF16("attention", "Attention_BF16"),
    ATTENTION_GRAD_QUERY("attention", "AttentionGradQuery"),
    ATTENTION_GRAD_KEY_VALUE("attention", "AttentionGradKeyValue");

    private final String file;
    private final String symbol;

    Kernel(String file, String symbol) {
        this.file = file;
        this.symbol = symbol;
    }

    /** The base name of its source file. */
    String file() {
        return file;
    }

    /** Its extern "C" name. */
    String symbol() {
        return symbol;
    }

    static Kernel matmul(DType b) {
        return byStorage(b, MATMUL_F32, MATMUL_F16, MATMUL_BF16);
    }

    static Kernel matmulFew(DType b) {
        return byStorage(b, MATMUL_FEW_F32, MATMUL_FEW_F16, MATMUL_FEW_BF16);
    }

    static Kernel expertMatmul(DType w) {
        return byStorage(w, EXPERT_MATMUL_F32, EXPERT_MATMUL_F16, EXPERT_MATMUL_BF16);
    }

    static Kernel expertMatmulFew(DType w) {
        return byStorage(w, EXPERT_MATMUL_FEW_F32, EXPERT_MATMUL_FEW_F16, EXPERT_MATMUL_FEW_BF16);
    }

    static Kernel attention(DType keys) {
        return byStorage(keys, ATTENTION_F32, ATTENTION_F16, ATTENTION_BF16);
    }

    private static Kernel byStorage(DType type, Kernel f32, Kernel f16, Kernel bf16) {
        return switch (type) {
            case F32 -> f32;
            case F16 -> f16;
            case BF16 -> bf16;
            default -> throw new DeviceException(f32.symbol + ": no kernel for " + type);
        };
    }
}
