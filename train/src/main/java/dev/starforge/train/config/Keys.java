package dev.starforge.train.config;

import dev.starforge.text.config.Key;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The settings of a run. A row here and its use are all that a new setting takes; {@code docs/config.md} is written from
 * this table.
 */
public final class Keys {
    private static final List<Key<?>> TABLE = new ArrayList<>();

    private static final int MANY = Integer.MAX_VALUE;
    private static final double ANY = Double.MAX_VALUE;
    private static final Map<String, Object> PRECISIONS =
            Map.of("float16", "fp16", "bfloat16", "bf16", "float32", "no", "fp32", "no");

    public static final Key<String> MODEL = row(Key.text(
                    "model.pretrained_model",
                    "bigcode/starcoder2-3b",
                    "A folder as HF lays it out, a .gguf file, the name of one that was pulled or is in the HF cache,"
                            + " or `scratch`: a new model.")
            .alias("base_model"));
    public static final Key<String> DTYPE = row(Key.choice(
                    "model.dtype",
                    "auto",
                    List.of("auto", "bf16", "fp16", "fp32"),
                    "How frozen weights are kept that are not quantized; what is trained is float32.")
            .alias("torch_dtype", Map.of("bfloat16", "bf16", "float16", "fp16", "float32", "fp32")));
    public static final Key<Integer> CONTEXT = row(Key.fitted(
                    "model.context_window",
                    2048,
                    2,
                    1 << 20,
                    "Tokens of a sequence at most; `auto` is 2048, or less where memory is short.")
            .alias("context_window")
            .alias("sequence_len")
            .alias("max_seq_length"));
    public static final Key<String> ADAPTER = row(Key.text(
            "model.adapter",
            "",
            "An adapter to go on from; its rank, alpha, targets and kind must be those set here."));
    public static final Key<Integer> HIDDEN =
            row(Key.whole("model.hidden_size", 256, 32, 1 << 16, "`scratch`: width, best a multiple of 256."));
    public static final Key<Integer> LAYERS =
            row(Key.whole("model.num_hidden_layers", 6, 1, 1024, "`scratch`: layers."));
    public static final Key<Integer> HEADS =
            row(Key.whole("model.num_attention_heads", 4, 1, 1024, "`scratch`: heads."));
    public static final Key<Integer> KV_HEADS =
            row(Key.whole("model.num_key_value_heads", 2, 1, 1024, "`scratch`: heads of keys and values."));
    public static final Key<Integer> INNER = row(Key.whole(
            "model.intermediate_size", 0, 0, 1 << 18, "`scratch`: width of the MLP; 0 is four times the width."));
    public static final Key<Integer> VOCABULARY = row(Key.whole(
            "model.vocab_size",
            8192,
            300,
            1 << 20,
            "`scratch`: vocabulary of the tokenizer that is trained where the dataset brings none."));

    public static final Key<Boolean> FOUR_BIT = row(Key.flag(
                    "quantization.load_in_4bit",
                    true,
                    "NF4 for the frozen matrices of the blocks; on Metal what `metal_storage` says.")
            .alias("use_4bit"));
    public static final Key<Boolean> EIGHT_BIT = row(Key.flag(
                    "quantization.load_in_8bit",
                    false,
                    "int8 groups for the frozen matrices of the blocks; goes before load_in_4bit.")
            .alias("use_8bit"));
    public static final Key<Boolean> DOUBLE =
            row(Key.flag("quantization.double_quantization", true, "Whether the scales of NF4 are quantized, too.")
                    .alias("bnb_4bit_use_double_quant"));
    public static final Key<Integer> GROUP = row(Key.whole(
                    "quantization.group_size",
                    128,
                    32,
                    4096,
                    "Elements that share a scale in int8 groups: a multiple of 32.")
            .alias("mps_group_size"));
    public static final Key<String> METAL_STORAGE = row(Key.choice(
                    "quantization.metal_storage", "int8", List.of("int8", "nf4"), "What load_in_4bit means on Metal.")
            .alias("mps_quant_dtype")
            .alias("use_mps_int8_quant", Map.of("true", "int8", "false", "nf4")));
    public static final Key<Boolean> LORA =
            row(Key.flag("quantization.lora_enabled", true, "An adapter is trained; otherwise every weight.")
                    .alias("use_lora"));
    public static final Key<Integer> RANK = row(Key.whole("quantization.lora_rank", 32, 1, 4096, "Rank of the updates.")
            .alias("lora_r"));
    public static final Key<Double> ALPHA = row(Key.number(
            "quantization.lora_alpha",
            64,
            1e-6,
            1e6,
            "Updates are scaled by alpha / rank, with use_rslora by alpha / sqrt(rank)."));
    public static final Key<Double> DROPOUT =
            row(Key.number("quantization.lora_dropout", 0.05, 0, 0.99, "Share of an update's inputs that is dropped."));
    public static final Key<List<String>> TARGETS = row(Key.texts(
            "quantization.lora_target_modules",
            List.of("auto"),
            "Names of projections; `auto` is all of attention and MLP, of DeepSeek attention alone. `experts`"
                    + " is the stacks of a mixture."));
    public static final Key<String> BIAS = row(
            Key.choice("quantization.lora_bias", "none", List.of("none"), "Biases are not trained with an adapter."));
    public static final Key<Boolean> RSLORA =
            row(Key.flag("quantization.use_rslora", false, "Rank-stabilized scaling."));
    public static final Key<Boolean> DORA =
            row(Key.flag("quantization.use_dora", false, "Lengths and directions of weights are trained apart."));

    public static final Key<Integer> BATCH = row(Key.fitted(
                    "optimization.batch_size",
                    2,
                    1,
                    1 << 16,
                    "Sequences at a time, halved where memory is short; `auto` is 2, on a GPU as many as fit. A step"
                            + " keeps its sequences.")
            .alias("micro_batch_size")
            .alias("per_device_train_batch_size"));
    public static final Key<Integer> ACCUMULATION = row(Key.whole(
            "optimization.gradient_accumulation_steps", 8, 1, 1 << 16, "Batches that make one optimizer step."));
    public static final Key<Double> RATE =
            row(Key.number("optimization.learning_rate", 2e-4, 0, 10, "Highest learning rate."));
    public static final Key<String> SCHEDULE = row(Key.choice(
            "optimization.lr_scheduler",
            "cosine",
            List.of("cosine", "linear", "constant", "wsd"),
            "How the rate falls after the warmup; `wsd` stays high and falls in the last fifth."));
    public static final Key<Integer> WARMUP_STEPS = row(
            Key.whole("optimization.warmup_steps", 0, 0, MANY, "Steps over which the rate rises; 0 is warmup_ratio."));
    public static final Key<Double> WARMUP_RATIO =
            row(Key.number("optimization.warmup_ratio", 0.03, 0, 1, "Share of all steps over which the rate rises."));
    public static final Key<String> OPTIMIZER = row(Key.choice(
            "optimization.optimizer",
            "adamw",
            List.of("adamw", "adamw_8bit"),
            "`adamw_8bit` keeps its state in 8 bits, block by block."));
    public static final Key<Double> DECAY = row(Key.number(
            "optimization.weight_decay",
            0.01,
            0,
            10,
            "Decoupled weight decay of matrices; norms and biases have none."));
    public static final Key<List<Double>> BETAS =
            row(Key.pair("optimization.betas", 0.9, 0.999, "Decay of the two moments."));
    public static final Key<Double> EPS =
            row(Key.number("optimization.eps", 1e-8, 0, 1, "Added to the root of the second moment."));
    public static final Key<Double> MAX_NORM = row(Key.number(
            "optimization.max_grad_norm", 1, 0, ANY, "Longer gradients are scaled to this; 0 is no clipping."));
    public static final Key<String> MIXED = row(Key.choice(
                    "optimization.mixed_precision",
                    "auto",
                    List.of("auto", "bf16", "fp16", "no"),
                    "What products are computed in; `auto` is what the device is fastest in, any other is obeyed or an"
                            + " error.")
            .alias("use_mixed_precision", Map.of("true", "auto", "false", "no"))
            .alias("bnb_4bit_compute_dtype", PRECISIONS));
    public static final Key<String> CHECKPOINTING = row(Key.choice(
            "optimization.gradient_checkpointing",
            "auto",
            List.of("true", "selective", "false", "auto"),
            "Blocks run again during backward instead of keeping what they computed: whole (`true`), or without their"
                    + " products and attention (`selective`); `auto` is the least that memory asks for."));
    public static final Key<Double> NEFTUNE =
            row(Key.number("optimization.neftune_alpha", 0, 0, 1000, "Noise on embeddings; 0 is none."));

    public static final Key<Integer> EPOCHS =
            row(Key.whole("training.num_epochs", 3, 1, 1 << 20, "Passes over the data.")
                    .alias("num_train_epochs"));
    public static final Key<Integer> MAX_STEPS =
            row(Key.whole("training.max_steps", 0, 0, MANY, "Optimizer steps; 0 is what the epochs give."));
    public static final Key<Integer> EVAL_STEPS =
            row(Key.whole("training.eval_steps", 200, 0, MANY, "Steps between evaluations; 0 is none but at the end."));
    public static final Key<Integer> SAVE_STEPS =
            row(Key.whole("training.save_steps", 500, 0, MANY, "Steps between checkpoints; 0 is none but at the end."));
    public static final Key<Integer> SAVE_LIMIT = row(Key.whole(
            "training.save_total_limit", 3, 1, MANY, "Checkpoints that are kept; the best and the latest always are."));
    public static final Key<Integer> LOGGING_STEPS = row(Key.whole(
            "training.logging_steps", 10, 1, MANY, "Steps between lines in a pipe; metrics.jsonl has every step."));
    public static final Key<Integer> SEED = row(Key.whole("training.seed", 42, 0, MANY, "Of all randomness."));
    public static final Key<Integer> PATIENCE = row(Key.whole(
            "training.patience", 3, 0, MANY, "Evaluations without improvement after which the run ends; 0 is never."));
    public static final Key<Double> MIN_DELTA =
            row(Key.number("training.min_delta", 1e-4, 0, ANY, "Less than this is no improvement."));
    public static final Key<Boolean> PACKING = row(Key.flag(
                    "training.packing",
                    true,
                    "Documents share a sequence, without seeing each other; otherwise one each.")
            .alias("sample_packing"));
    public static final Key<Double> FIM_RATE = row(Key.number(
            "training.fim_rate",
            0.5,
            0,
            1,
            "Share of documents turned into fill-in-the-middle, where the tokenizer can."));
    public static final Key<Double> SPM_RATE =
            row(Key.number("training.spm_rate", 0, 0, 1, "Share of those with the suffix first."));
    public static final Key<String> CURRICULUM = row(Key.choice(
            "training.curriculum",
            "none",
            List.of("none", "short_first"),
            "`short_first`: the first epoch goes from sequences of short documents to those of long ones."));
    public static final Key<Double> HALF_LIFE = row(Key.number(
            "training.recency_half_life_days",
            0,
            0,
            ANY,
            "Age that halves a document's weight in the loss; 0 is none."));
    public static final Key<Map<String, Double>> DIRECTORIES = row(Key.weights(
            "training.directory_weights", "Weights in the loss by directory, the longest that fits; others weigh 1."));
    public static final Key<String> SINCE = row(
            Key.text("training.since_commit", "", "Only documents of commits newer than this one; see model.adapter."));
    public static final Key<Integer> NEWEST_TOKENS = row(Key.whole(
            "training.newest_tokens",
            0,
            0,
            MANY,
            "Only the newest documents, up to so many tokens: half of them files, half changes. 0 is all."));
    public static final Key<Integer> SAMPLES =
            row(Key.whole("training.samples", 2, 0, 32, "Texts the report shows as written before and after."));

    public static final Key<String> DATASET = row(Key.text("data.path", "", "A folder that the dataset verb wrote."));
    public static final Key<String> TRAIN = row(
            Key.text("data.train", "", "A file instead: token_sequences.json, training_data_enhanced_*.json or .jsonl.")
                    .alias("train_path"));
    public static final Key<String> VALIDATION =
            row(Key.text("data.validation", "", "Such a file to evaluate on.").alias("val_path"));
    public static final Key<String> TEST =
            row(Key.text("data.test", "", "Such a file for the eval verb.").alias("test_path"));
    public static final Key<Integer> LOADERS = row(Key.whole(
                    "data.num_workers",
                    0,
                    0,
                    256,
                    "Threads that read the next step's sequences; 0 is the one that trains, while the device computes."
                            + " They compute nothing, and results do not depend on them.")
            .alias("num_workers"));

    public static final Key<Integer> EVALUATION_TOKENS = row(Key.limit(
            "evaluation.max_tokens",
            200_000,
            "Held-out tokens to evaluate on at most: a sample drawn with training.seed, the same every time. 0"
                    + " is all."));
    public static final Key<List<String>> PROMPTS = row(Key.texts(
            "evaluation.prompts",
            List.of(),
            "Beginnings that eval lets a model continue; none are some for the languages of the dataset."));
    public static final Key<String> PROMPT_LANGUAGE = row(Key.choice(
            "evaluation.language",
            "null",
            List.of("null", "c", "cpp", "go", "java", "javascript", "python", "rust", "typescript"),
            "The language of evaluation.prompts, whose grammar they are held to; null is the dataset's first."));
    public static final Key<Integer> PROMPT_TOKENS =
            row(Key.whole("evaluation.prompt_tokens", 96, 1, 4096, "Tokens that a prompt is continued by, at most."));

    public static final Key<String> FORCE = row(Key.choice(
                    "device.force",
                    "null",
                    List.of("null", "cpu", "cuda", "metal", "reference"),
                    "The device; one that is missing is an error.")
            .alias("force_device", Map.of("mps", "metal")));
    public static final Key<Integer> INDEX = row(Key.whole("device.index", 0, 0, 1024, "Which one of its kind."));
    public static final Key<String> ATTENTION = row(Key.choice(
                    "device.attention",
                    "auto",
                    List.of("auto", "flash", "plain"),
                    "`plain` runs attention as its definition.")
            .alias(
                    "attention_backend",
                    Map.of("metal", "flash", "xformers", "flash", "sdpa", "auto", "native", "plain")));
    public static final Key<Double> MEMORY_LIMIT =
            row(Key.number("device.memory_limit", 0, 0, ANY, "GiB to plan with; 0 is what is free."));
    public static final Key<Integer> THREADS = row(Key.whole(
            "device.threads", 0, 0, 4096, "Threads on the CPU; 0 is one for each core. Results do not depend on it."));
    public static final Key<String> METAL_PRECISION = row(Key.choice(
                    "device.metal_precision",
                    "auto",
                    List.of("auto", "fp16", "bf16", "no"),
                    "mixed_precision on Metal.")
            .alias("mps_compute_dtype", PRECISIONS)
            .alias("mps_prefer_fp16", Map.of("true", "fp16", "false", "auto")));

    public static final Key<String> OUTPUT =
            row(Key.text("output.output_dir", "starforge-run", "Where the run is written."));
    public static final Key<Boolean> OVERWRITE = row(Key.flag(
            "output.overwrite", false, "Whether a run that is there may be replaced; not while it is being written."));

    public static final List<Key<?>> ALL = List.copyOf(TABLE);

    private Keys() {}

    private static <T> Key<T> row(Key<T> key) {
        TABLE.add(key);
        return key;
    }
}
