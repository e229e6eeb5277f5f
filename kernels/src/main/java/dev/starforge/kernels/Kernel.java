package dev.starforge.kernels;

import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * All kernels: source file, name, and shared memory per group in bytes, which the emulator checks against the kernel's declarations.
 */
public enum Kernel {
    ADD("elementwise", "Add", 0),
    MUL("elementwise", "Mul", 0),
    AFFINE("elementwise", "Affine", 0),
    MAP("elementwise", "Map", 0),
    MAP_GRAD("elementwise", "MapGrad", 0),
    CAST("elementwise", "Cast", 0),
    FILL("elementwise", "Fill", 0),
    MATMUL("matmul", "MatMul", 8704),
    MATMUL_SMALL_M("matmul", "MatMulSmallM", MatMuls.SMALL_M_SHARED_BYTES),
    GEMV("gemv", "Gemv", 49152, "epilogue", "packing", "mma", "weight_tiles"),
    NORM_GEMV("gemv", "NormGemv", 49152, "epilogue", "packing", "mma", "weight_tiles"),
    SMALL_BATCH_GEMM("small_batch_gemm", "SmallBatchGemm", 98304, "epilogue", "packing", "mma", "weight_tiles"),
    REDUCE_SPLITS("small_batch_gemm", "ReduceSplits", 0, "epilogue", "packing", "mma", "weight_tiles"),
    DEQUANTIZE("dequantize", "Dequantize", 0, "packing", "weight_tiles"),
    GATHER_ROWS("dequantize", "GatherRows", 0, "packing", "weight_tiles"),
    PACK_WEIGHT_TILES("repack_weights", "PackWeightTiles", 0),
    UNPACK_WEIGHT_TILES("repack_weights", "UnpackWeightTiles", 0),
    LINEAR("linear", "Linear", 8704, "epilogue"),
    LINEAR_SMALL_M("linear", "LinearSmallM", MatMuls.SMALL_M_SHARED_BYTES, "epilogue"),
    LINEAR_EPILOGUE("linear", "LinearEpilogue", 0, "epilogue"),
    PERMUTE("rows", "Permute", 0),
    SUM_LAST("rows", "SumLast", 32),
    SUM_LEADING("rows", "SumLeading", 1024),
    PICK("rows", "Pick", 0),
    UNPICK("rows", "Unpick", 0),
    COLUMNS("rows", "Columns", 0),
    PAD("rows", "Pad", 0),
    GATHER("rows", "Gather", 0),
    SCATTER_ADD("rows", "ScatterAdd", 1088),
    STORE("rows", "Store", 32),
    STORE_INT8("rows", "StoreInt8", 32),
    ROUTE("experts", "Route", 12288),
    GROUP("experts", "Group", 32),
    EXPERT_MATMUL("experts", "ExpertMatMul", 8704),
    EXPERT_MATMUL_SMALL_M("experts", "ExpertMatMulSmallM", MatMuls.SMALL_M_SHARED_BYTES),
    EXPERT_OUTER("experts", "ExpertOuter", 8704),
    SOFTMAX("softmax", "Softmax", 32),
    SOFTMAX_GRAD("softmax", "SoftmaxGrad", 32),
    LOG_SUM_EXP("softmax", "LogSumExp", 32),
    ARGMAX("softmax", "Argmax", 2048),
    SAMPLE("sample", "Sample", 2080),
    NORM_PART("adamw", "NormPart", 64),
    NORM("adamw", "Norm", 64),
    ADAMW("adamw", "AdamW", 0),
    ADAMW8("adamw8", "AdamW8", 2080),
    DROPOUT("dropout", "Dropout", 0),
    NOISE("dropout", "Noise", 0),
    LAYER_NORM("layer_norm", "LayerNorm", 32),
    ADD_LAYER_NORM("layer_norm", "AddLayerNorm", 32),
    LAYER_NORM_GRAD("layer_norm", "LayerNormGrad", 64),
    RMS_NORM("rms_norm", "RmsNorm", 32),
    ADD_RMS_NORM("rms_norm", "AddRmsNorm", 32),
    RMS_NORM_GRAD("rms_norm", "RmsNormGrad", 32),
    RMS_NORM_GRAD_WEIGHTS("rms_norm", "RmsNormGradWeights", 1024),
    ROPE("rope", "Rope", 0),
    ROPE_STORE("rope", "RopeStore", 0),
    LORA_DOWN("lora", "LoraDown", 0),
    LORA_UP("lora", "LoraUp", 0),
    GATED("gated", "Gated", 0),
    GATED_GRAD("gated", "GatedGrad", 0),
    CROSS_ENTROPY("cross_entropy", "CrossEntropy", 32),
    CROSS_ENTROPY_GRAD("cross_entropy", "CrossEntropyGrad", 0),
    MASK("attention", "Mask", 0),
    ATTENTION("attention", "Attention", 8256),
    FLASH_ATTENTION("flash_attention", "FlashAttention", 32800, "packing", "mma", "attention_mma"),
    DECODE_ATTENTION("decode_attention", "DecodeAttention", 17408, "packing", "mma"),
    APPEND_ATTENTION("decode_attention", "AppendAttention", 17920, "packing", "mma"),
    COMBINE_ATTENTION("decode_attention", "CombineAttention", 0, "packing", "mma"),
    FLASH_GRAD_QUERY("flash_attention_grad", "FlashGradQuery", 32800, "packing", "mma", "attention_mma"),
    FLASH_GRAD_KEY_VALUE("flash_attention_grad", "FlashGradKeyValue", 33568, "packing", "mma", "attention_mma"),
    FLASH_GRAD_COMBINE("flash_attention_grad", "FlashGradCombine", 0, "packing", "mma", "attention_mma"),
    FLASH_ATTENTION_SM90("flash_attention_sm90", "FlashAttentionSm90", 165920, "packing", "mma", "attention_wgmma"),
    FLASH_GRAD_QUERY_SM90(
            "flash_attention_grad_sm90", "FlashGradQuerySm90", 164896, "packing", "mma", "attention_wgmma"),
    FLASH_GRAD_KEY_VALUE_SM90(
            "flash_attention_grad_sm90", "FlashGradKeyValueSm90", 133152, "packing", "mma", "attention_wgmma"),
    ATTENTION_GRAD_QUERY("attention", "AttentionGradQuery", 8192),
    ATTENTION_GRAD_KEY_VALUE("attention", "AttentionGradKeyValue", 16416);

    /** Static shared memory that every device supports. */
    private static final int STATIC_SHARED_BYTES = 48 << 10;

    private final String file;
    private final String symbol;
    private final int sharedBytes;
    private final List<String> files;
    private final Optional<Sibling> sibling;

    Kernel(String file, String symbol, int shared, String... before) {
        this.file = file;
        this.symbol = symbol;
        this.sharedBytes = shared;
        files = Stream.of(Stream.of("common"), Stream.of(before), Stream.of(file))
                .flatMap(each -> each)
                .toList();
        sibling = files.contains("attention_wgmma")
                ? Optional.of(Sibling.WGMMA)
                : files.contains("mma") ? Optional.of(Sibling.MMA) : Optional.empty();
    }

    /** The base name of its source file. */
    public String file() {
        return file;
    }

    /** The source files of a program with this kernel, in order. */
    List<String> files() {
        return files;
    }

    /** Returns true if the kernel uses programmatic dependent launch, as found in its source. */
    public boolean usesDependentLaunch() {
        return Signature.of(this).dependentLaunch();
    }

    /** The kernel's name in its source and in the compiled module. */
    public String symbol() {
        return symbol;
    }

    /** Threads per group. */
    public int threads() {
        return Launch.GROUP;
    }

    /** The siblings that the kernel is one of; empty for a portable kernel, which every device runs. */
    public Optional<Sibling> sibling() {
        return sibling;
    }

    /** Bytes of shared memory per group, each array rounded up to 16, if a group may have {@code limit} bytes. */
    public int sharedBytes(int limit) {
        boolean smallM = sharedBytes == MatMuls.SMALL_M_SHARED_BYTES;
        return smallM && limit < sharedBytes ? MatMuls.SMALL_M_COMPACT_SHARED_BYTES : sharedBytes;
    }

    /** Bytes of dynamic shared memory that the launch must request; 0 if static shared memory suffices. */
    public int dynamicSharedBytes() {
        return sharedBytes > STATIC_SHARED_BYTES ? sharedBytes : 0;
    }
}
