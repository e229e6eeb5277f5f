package dev.starforge.train.config;

import dev.starforge.text.config.Key;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The settings of a run. A new setting needs one row here and the code that uses it. {@code docs/config.md} is generated
 * from this table.
 */
public final class Keys {
    private static final List<Key<?>> TABLE = new ArrayList<>();

    private static final int NO_LIMIT = Integer.MAX_VALUE;
    private static final double UNBOUNDED = Double.MAX_VALUE;
    private static final Map<String, Object> PRECISIONS =
            Map.of("float16", "fp16", "bfloat16", "bf16", "float32", "no", "fp32", "no");

    public static final Key<String> MODEL = row(Key.text(
                    "model.pretrained_model",
                    "nano",
                    "`nano`, built in; a folder in HF layout, a .gguf file, the name of a pulled model or of one in the HF"
                            + " cache; `scratch`.")
            .alias("base_model"));
    public static final Key<String> DTYPE = row(Key.choice(
                    "model.dtype",
                    "auto",
                    List.of("auto", "bf16", "fp16", "fp32"),
                    "Type of frozen weights that are not quantized; trained weights are float32.")
            .alias("torch_dtype", Map.of("bfloat16", "bf16", "float16", "fp16", "float32", "fp32")));
    public static final Key<Integer> CONTEXT = row(Key.fitted(
                    "model.context_window",
                    2048,
                    2,
                    1 << 20,
                    "Maximum sequence length in tokens; `auto` is 2048, or less if memory is short.")
            .alias("context_window")
            .alias("sequence_len")
            .alias("max_seq_length"));
    public static final Key<String> ADAPTER = row(Key.text(
            "model.adapter",
            "",
            "Adapter to continue from; its rank, alpha, targets and kind must match the settings here."));
    public static final Key<Integer> HIDDEN = row(Key.integer(
            "model.hidden_size", 256, 32, 1 << 16, "`scratch`: hidden size, preferably a multiple of 256."));
    public static final Key<Integer> LAYERS =
            row(Key.integer("model.num_hidden_layers", 6, 1, 1024, "`scratch`: number of layers."));
    public static final Key<Integer> HEADS =
            row(Key.integer("model.num_attention_heads", 4, 1, 1024, "`scratch`: number of attention heads."));
    public static final Key<Integer> KV_HEADS =
            row(Key.integer("model.num_key_value_heads", 2, 1, 1024, "`scratch`: number of key-value heads."));
    public static final Key<Integer> INNER = row(Key.integer(
            "model.intermediate_size",
            0,
            0,
            1 << 18,
            "`scratch`: intermediate size of the MLP; 0 is four times the hidden size."));
    public static final Key<Integer> VOCABULARY = row(Key.integer(
            "model.vocab_size",
            8192,
            300,
            1 << 20,
            "`scratch`: vocabulary size of the tokenizer, which is trained if the dataset has none."));

    public static final Key<Boolean> FOUR_BIT = row(Key.flag(
                    "quantization.load_in_4bit",
                    true,
                    "Quantize the frozen matrices of the blocks to NF4; on Metal to the type in `metal_storage`.")
            .alias("use_4bit"));
    public static final Key<Boolean> EIGHT_BIT = row(Key.flag(
                    "quantization.load_in_8bit",
                    false,
                    "Quantize the frozen matrices of the blocks to int8 groups; overrides load_in_4bit.")
            .alias("use_8bit"));
    public static final Key<Boolean> DOUBLE =
            row(Key.flag("quantization.double_quantization", true, "Quantize the scales of NF4 as well.")
                    .alias("bnb_4bit_use_double_quant"));
    public static final Key<Integer> GROUP = row(Key.integer(
                    "quantization.group_size", 128, 32, 4096, "Elements per scale in int8 groups; a multiple of 32.")
            .alias("mps_group_size"));
    public static final Key<String> METAL_STORAGE = row(Key.choice(
                    "quantization.metal_storage",
                    "int8",
                    List.of("int8", "nf4"),
                    "Type that load_in_4bit selects on Metal.")
            .alias("mps_quant_dtype")
            .alias("use_mps_int8_quant", Map.of("true", "int8", "false", "nf4")));
    public static final Key<Boolean> LORA =
            row(Key.flag("quantization.lora_enabled", true, "Train a LoRA adapter; if false, train all weights.")
                    .alias("use_lora"));
    public static final Key<Integer> RANK =
            row(Key.integer("quantization.lora_rank", 32, 1, 4096, "Rank of the LoRA matrices.")
                    .alias("lora_r"));
    public static final Key<Double> ALPHA = row(Key.number(
            "quantization.lora_alpha",
            64,
            1e-6,
            1e6,
            "Updates are scaled by alpha / rank, with use_rslora by alpha / sqrt(rank)."));
    public static final Key<Double> DROPOUT =
            row(Key.number("quantization.lora_dropout", 0.05, 0, 0.99, "Dropout probability on the inputs of LoRA."));
    public static final Key<List<String>> TARGETS = row(Key.strings(
            "quantization.lora_target_modules",
            List.of("auto"),
            "Projections with an adapter; `auto` is all of attention and MLP, for DeepSeek only"
                    + " attention. `experts` is the expert weights of a mixture-of-experts model."));
    public static final Key<String> BIAS =
            row(Key.choice("quantization.lora_bias", "none", List.of("none"), "Biases are not trained with LoRA."));
    public static final Key<Boolean> RSLORA =
            row(Key.flag("quantization.use_rslora", false, "Rank-stabilized LoRA scaling."));
    public static final Key<Boolean> DORA = row(
            Key.flag("quantization.use_dora", false, "Train magnitude and direction of weights separately (DoRA)."));

    public static final Key<Integer> BATCH = row(Key.fitted(
                    "optimization.batch_size",
                    2,
                    1,
                    1 << 16,
                    "Sequences per micro-batch, halved if memory is short, at the same effective batch size;"
                            + " `auto` is 2, on a GPU as many as fit.")
            .alias("micro_batch_size")
            .alias("per_device_train_batch_size"));
    public static final Key<Integer> ACCUMULATION = row(Key.integer(
            "optimization.gradient_accumulation_steps", 8, 1, 1 << 16, "Micro-batches per optimizer step."));
    public static final Key<Double> RATE =
            row(Key.number("optimization.learning_rate", 2e-4, 0, 10, "Peak learning rate."));
    public static final Key<String> SCHEDULE = row(Key.choice(
            "optimization.lr_scheduler",
            "cosine",
            List.of("cosine", "linear", "constant", "wsd"),
            "Learning rate schedule after the warmup; `wsd` is constant and decays in the last fifth."));
    public static final Key<Integer> WARMUP_STEPS =
            row(Key.integer("optimization.warmup_steps", 0, 0, NO_LIMIT, "Warmup steps; 0 uses warmup_ratio."));
    public static final Key<Double> WARMUP_RATIO =
            row(Key.number("optimization.warmup_ratio", 0.03, 0, 1, "Fraction of all steps used for warmup."));
    public static final Key<String> OPTIMIZER = row(Key.choice(
            "optimization.optimizer",
            "adamw",
            List.of("adamw", "adamw_8bit"),
            "Optimizer; `adamw_8bit` keeps its state in block-wise 8 bits."));
    public static final Key<Double> DECAY = row(Key.number(
            "optimization.weight_decay",
            0.01,
            0,
            10,
            "Decoupled weight decay of matrices; norms and biases do not decay."));
    public static final Key<List<Double>> BETAS =
            row(Key.pair("optimization.betas", 0.9, 0.999, "Decay rates of the two moments."));
    public static final Key<Double> EPS =
            row(Key.number("optimization.eps", 1e-8, 0, 1, "Added to the square root of the second moment."));
    public static final Key<Double> MAX_NORM = row(Key.number(
            "optimization.max_grad_norm",
            1,
            0,
            UNBOUNDED,
            "Gradient norm above which gradients are clipped; 0 disables clipping."));
    public static final Key<String> MIXED = row(Key.choice(
                    "optimization.mixed_precision",
                    "auto",
                    List.of("auto", "bf16", "fp16", "no"),
                    "Compute type of matrix products; `auto` is the fastest type of the device. Fails if the"
                            + " device does not support the type.")
            .alias("use_mixed_precision", Map.of("true", "auto", "false", "no"))
            .alias("bnb_4bit_compute_dtype", PRECISIONS));
    public static final Key<String> CHECKPOINTING = row(Key.choice(
            "optimization.gradient_checkpointing",
            "auto",
            List.of("true", "selective", "false", "auto"),
            "Recompute blocks during backward instead of storing activations: everything (`true`), or all"
                    + " but matrix products and attention (`selective`); `auto` recomputes as little as memory"
                    + " permits."));
    public static final Key<Double> NEFTUNE = row(Key.number(
            "optimization.neftune_alpha", 0, 0, 1000, "Magnitude of NEFTune noise on embeddings; 0 disables it."));

    public static final Key<Integer> EPOCHS =
            row(Key.integer("training.num_epochs", 3, 1, 1 << 20, "Epochs over the training data.")
                    .alias("num_train_epochs"));
    public static final Key<Integer> MAX_STEPS = row(Key.integer(
            "training.max_steps", 0, 0, NO_LIMIT, "Maximum number of optimizer steps; 0 derives it from the epochs."));
    public static final Key<Double> MAX_MINUTES = row(
            Key.number(
                    "training.max_minutes",
                    0,
                    0,
                    UNBOUNDED,
                    "Time limit of the steps, in minutes; 0 is none. The number of steps follows from the measured speed, and"
                            + " is planned again during the run; the learning rate then decays to the new end without a jump."));
    public static final Key<Integer> EVAL_STEPS = row(Key.integer(
            "training.eval_steps", 200, 0, NO_LIMIT, "Steps between evaluations; 0 evaluates only at the end."));
    public static final Key<Integer> SAVE_STEPS = row(Key.integer(
            "training.save_steps", 500, 0, NO_LIMIT, "Steps between checkpoints; 0 saves only at the end."));
    public static final Key<Integer> SAVE_LIMIT = row(Key.integer(
            "training.save_total_limit",
            3,
            1,
            NO_LIMIT,
            "Maximum number of checkpoints; the best and the latest are always kept."));
    public static final Key<Integer> LOGGING_STEPS = row(Key.integer(
            "training.logging_steps",
            10,
            1,
            NO_LIMIT,
            "Steps between log lines if the output is not a terminal; metrics.jsonl has every step."));
    public static final Key<Integer> SEED = row(Key.integer("training.seed", 42, 0, NO_LIMIT, "Random seed."));
    public static final Key<Integer> PATIENCE = row(Key.integer(
            "training.patience",
            3,
            0,
            NO_LIMIT,
            "Evaluations without improvement before the run stops; 0 disables early stopping."));
    public static final Key<Double> MIN_DELTA = row(Key.number(
            "training.min_delta", 1e-4, 0, UNBOUNDED, "Minimum decrease of the loss that counts as an improvement."));
    public static final Key<Boolean> PACKING = row(Key.flag(
                    "training.packing",
                    true,
                    "Pack several documents into a sequence; they do not attend to each other. If false, each"
                            + " sequence holds one document.")
            .alias("sample_packing"));
    public static final Key<Double> FIM_RATE = row(Key.number(
            "training.fim_rate",
            0.5,
            0,
            1,
            "Fraction of documents transformed for fill-in-the-middle, if the tokenizer has its tokens."));
    public static final Key<Double> SPM_RATE = row(Key.number(
            "training.spm_rate", 0, 0, 1, "Fraction of fill-in-the-middle documents with the suffix first (SPM)."));
    public static final Key<String> CURRICULUM = row(Key.choice(
            "training.curriculum",
            "none",
            List.of("none", "short_first"),
            "Order of the first epoch; `short_first` sorts sequences from short documents to long ones."));
    public static final Key<Double> HALF_LIFE = row(Key.number(
            "training.recency_half_life_days",
            0,
            0,
            UNBOUNDED,
            "Age in days at which a document's loss weight is halved; 0 disables this."));
    public static final Key<Map<String, Double>> DIRECTORIES = row(Key.weights(
            "training.directory_weights",
            "Loss weights by directory; the longest matching path applies, other documents have weight 1."));
    public static final Key<String> SINCE = row(Key.text(
            "training.since_commit",
            "",
            "Train only on documents from commits newer than this one; see model.adapter."));
    public static final Key<Integer> NEWEST_TOKENS = row(Key.integer(
            "training.newest_tokens",
            0,
            0,
            NO_LIMIT,
            "Train only on the newest documents, up to this number of tokens: half from files, half from"
                    + " changes. 0 uses all."));
    public static final Key<Integer> SAMPLES = row(Key.integer(
            "training.samples",
            2,
            0,
            32,
            "Number of generated samples in the report, from before and after training."));

    public static final Key<String> DATASET = row(Key.text("data.path", "", "Folder written by the dataset command."));
    public static final Key<String> TRAIN = row(Key.text(
                    "data.train",
                    "",
                    "Training data as a single file: token_sequences.json, training_data_enhanced_*.json or"
                            + " .jsonl.")
            .alias("train_path"));
    public static final Key<String> VALIDATION =
            row(Key.text("data.validation", "", "Validation data in the same formats.")
                    .alias("val_path"));
    public static final Key<String> TEST =
            row(Key.text("data.test", "", "Test data in the same formats, for the eval command.")
                    .alias("test_path"));
    public static final Key<Integer> LOADERS = row(Key.integer(
                    "data.num_workers",
                    0,
                    0,
                    256,
                    "Threads that load the next step's sequences; 0 loads them in the training thread while the"
                            + " device computes. Results do not depend on it.")
            .alias("num_workers"));

    public static final Key<Integer> EVALUATION_TOKENS = row(Key.limit(
            "evaluation.max_tokens",
            200_000,
            "Maximum number of held-out tokens to evaluate on. The sample is drawn once with"
                    + " training.seed. 0 uses all."));
    public static final Key<List<String>> PROMPTS = row(Key.strings(
            "evaluation.prompts",
            List.of(),
            "Prompts that eval completes; if empty, eval has default prompts for the languages of the" + " dataset."));
    public static final Key<String> PROMPT_LANGUAGE = row(Key.choice(
            "evaluation.language",
            "null",
            List.of("null", "c", "cpp", "go", "java", "javascript", "python", "rust", "typescript"),
            "Language of evaluation.prompts, used to check the syntax of completions; null is the first"
                    + " language of the dataset."));
    public static final Key<Integer> PROMPT_TOKENS =
            row(Key.integer("evaluation.prompt_tokens", 96, 1, 4096, "Maximum number of tokens generated per prompt."));

    public static final Key<String> FORCE = row(Key.choice(
                    "device.force",
                    "null",
                    List.of("null", "cpu", "cuda", "metal", "reference"),
                    "Device to run on; fails if it is not available.")
            .alias("force_device", Map.of("mps", "metal")));
    public static final Key<Integer> INDEX =
            row(Key.integer("device.index", 0, 0, 1024, "Index of the device among those of the same kind."));
    public static final Key<String> ATTENTION = row(Key.choice(
                    "device.attention",
                    "auto",
                    List.of("auto", "flash", "plain"),
                    "Attention kernel; `plain` runs the expansion into basic operations.")
            .alias(
                    "attention_backend",
                    Map.of("metal", "flash", "xformers", "flash", "sdpa", "auto", "native", "plain")));
    public static final Key<Double> MEMORY_LIMIT =
            row(Key.number("device.memory_limit", 0, 0, UNBOUNDED, "Memory limit in GiB; 0 uses the free memory."));
    public static final Key<Integer> THREADS = row(
            Key.integer("device.threads", 0, 0, 4096, "CPU threads; 0 is one per core. Results do not depend on it."));
    public static final Key<String> METAL_PRECISION = row(Key.choice(
                    "device.metal_precision",
                    "auto",
                    List.of("auto", "fp16", "bf16", "no"),
                    "Overrides mixed_precision on Metal.")
            .alias("mps_compute_dtype", PRECISIONS)
            .alias("mps_prefer_fp16", Map.of("true", "fp16", "false", "auto")));

    public static final Key<String> OUTPUT =
            row(Key.text("output.output_dir", "starforge-run", "Output folder of the run."));
    public static final Key<Boolean> OVERWRITE = row(
            Key.flag("output.overwrite", false, "Replace an existing run; fails while another process is writing it."));

    public static final List<Key<?>> ALL = List.copyOf(TABLE);

    private Keys() {}

    private static <T> Key<T> row(Key<T> key) {
        TABLE.add(key);
        return key;
    }
}
