package dev.starforge.kernels;

import java.util.List;
import java.util.stream.Stream;

/**
 * Every kernel: the source file it is in, its name there, and the shared memory of a group. All have groups of
 * {@link Launch#GROUP} threads. The emulator holds the last column against what a kernel declares.
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
    MATMUL_FEW("matmul", "MatMulFew", 34816),
    PROJECT("project", "Project", 49152, "epilogue", "mma", "tiles"),
    NORM_PROJECT("project", "NormProject", 49152, "epilogue", "mma", "tiles"),
    PROJECT_BATCH("batch", "ProjectBatch", 98304, "epilogue", "mma", "tiles"),
    SUM_PARTS("batch", "SumParts", 0, "epilogue", "mma", "tiles"),
    DEQUANTIZE("dequantize", "Dequantize", 0, "mma", "tiles"),
    GATHER_TILES("dequantize", "GatherTiles", 0, "mma", "tiles"),
    PACK_TILES("repack", "PackTiles", 0),
    UNPACK_TILES("repack", "UnpackTiles", 0),
    LINEAR("linear", "Linear", 8704, "epilogue"),
    LINEAR_FEW("linear", "LinearFew", 34816, "epilogue"),
    FINISH("linear", "Finish", 0, "epilogue"),
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
    EXPERT_MATMUL_FEW("experts", "ExpertMatMulFew", 34816),
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
    LAYER_NORM("layernorm", "LayerNorm", 32),
    ADD_LAYER_NORM("layernorm", "AddLayerNorm", 32),
    LAYER_NORM_GRAD("layernorm", "LayerNormGrad", 64),
    RMS_NORM("rmsnorm", "RmsNorm", 32),
    ADD_RMS_NORM("rmsnorm", "AddRmsNorm", 32),
    RMS_NORM_GRAD("rmsnorm", "RmsNormGrad", 32),
    RMS_NORM_GRAD_WEIGHTS("rmsnorm", "RmsNormGradWeights", 1024),
    ROPE("rope", "Rope", 0),
    ROPE_STORE("rope", "RopeStore", 0),
    LORA_DOWN("lora", "LoraDown", 0),
    LORA_UP("lora", "LoraUp", 0),
    GATED("gated", "Gated", 0),
    GATED_GRAD("gated", "GatedGrad", 0),
    CROSS_ENTROPY("crossentropy", "CrossEntropy", 32),
    CROSS_ENTROPY_GRAD("crossentropy", "CrossEntropyGrad", 0),
    MASK("attention", "Mask", 0),
    ATTENTION("attention", "Attention", 8256),
    FLASH_ATTENTION("flash", "FlashAttention", 32800, "mma", "lines"),
    DECODE_ATTENTION("decode", "DecodeAttention", 17408, "mma"),
    APPEND_ATTENTION("decode", "AppendAttention", 17920, "mma"),
    COMBINE_ATTENTION("decode", "CombineAttention", 0, "mma"),
    FLASH_GRAD_QUERY("flashgrad", "FlashGradQuery", 32800, "mma", "lines"),
    FLASH_GRAD_KEY_VALUE("flashgrad", "FlashGradKeyValue", 33568, "mma", "lines"),
    FLASH_GRAD_COMBINE("flashgrad", "FlashGradCombine", 0, "mma", "lines"),
    FLASH_ATTENTION_90("flash90", "FlashAttention90", 165920, "mma", "lines90"),
    FLASH_GRAD_QUERY_90("flashgrad90", "FlashGradQuery90", 164896, "mma", "lines90"),
    FLASH_GRAD_KEY_VALUE_90("flashgrad90", "FlashGradKeyValue90", 133152, "mma", "lines90"),
    ATTENTION_GRAD_QUERY("attention", "AttentionGradQuery", 8192),
    ATTENTION_GRAD_KEY_VALUE("attention", "AttentionGradKeyValue", 16416);

    /** Shared memory that every chip gives a group without being asked. */
    private static final int PLAIN_SHARED = 48 << 10;

    private final String file;
    private final String symbol;
    private final int shared;
    private final List<String> files;

    Kernel(String file, String symbol, int shared, String... before) {
        this.file = file;
        this.symbol = symbol;
        this.shared = shared;
        files = Stream.of(Stream.of("common"), Stream.of(before), Stream.of(file))
                .flatMap(each -> each)
                .toList();
    }

    /** The base name of its source file. */
    public String file() {
        return file;
    }

    /** The source files that a program with it is made of, in order. */
    List<String> files() {
        return files;
    }

    /** Whether it begins while the kernel before it ends, and waits for that one itself, which its text says. */
    public boolean overlaps() {
        return Signature.of(this).overlaps();
    }

    /** Its name there, and in what is compiled. */
    public String symbol() {
        return symbol;
    }

    /** Bytes of shared memory that a group has, each array rounded up to sixteen. */
    public int shared() {
        return shared;
    }

    /** The same of a kernel that has more than chips give without being asked, whose launch says so; 0 of the others. */
    public int largeShared() {
        return shared > PLAIN_SHARED ? shared : 0;
    }
}
