package dev.starforge.train;

import dev.starforge.train.eval.Behaviour;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Every setting there is. What is not here is an error, and what is here is obeyed. */
public final class Keys {
    private static final int MANY = Integer.MAX_VALUE;
    private static final double ANY = Double.MAX_VALUE;

    public static final Key<String> MODEL = Key.text(
            "model.pretrained_model",
            "bigcode/starcoder2-3b",
            "A folder as HF lays it out, a .gguf file, an id whose files are in the HF cache, or `scratch`: a new model.");
    public static final Key<String> DTYPE = Key.choice(
            "model.dtype",
            "auto",
            List.of("auto", "bf16", "fp16", "fp32"),
            "How frozen weights are kept that are not quantized; what is trained is float32.");
    public static final Key<Integer> CONTEXT =
            Key.whole("model.context_window", 2048, 2, 1 << 20, "Tokens of a sequence at most.");
    public static final Key<String> ADAPTER = Key.text(
            "model.adapter", "", "An adapter to go on from; its rank, alpha, targets and kind must be those set here.");
    public static final Key<Integer> HIDDEN =
            Key.whole("model.hidden_size", 256, 32, 1 << 16, "`scratch`: width, best a multiple of 256.");
    public static final Key<Integer> LAYERS = Key.whole("model.num_hidden_layers", 6, 1, 1024, "`scratch`: layers.");
    public static final Key<Integer> HEADS = Key.whole("model.num_attention_heads", 4, 1, 1024, "`scratch`: heads.");
    public static final Key<Integer> KV_HEADS =
            Key.whole("model.num_key_value_heads", 2, 1, 1024, "`scratch`: heads of keys and values.");
    public static final Key<Integer> INNER = Key.whole(
            "model.intermediate_size", 0, 0, 1 << 18, "`scratch`: width of the MLP; 0 is four times the width.");
    public static final Key<Integer> VOCABULARY = Key.whole(
            "model.vocab_size",
            8192,
            300,
            1 << 20,
            "`scratch`: vocabulary of the tokenizer that is trained where the dataset brings none.");

    public static final Key<Boolean> FOUR_BIT = Key.flag(
            "quantization.load_in_4bit",
            true,
            "NF4 for the frozen matrices of the blocks; on Metal what `metal_storage` says.");
    public static final Key<Boolean> EIGHT_BIT = Key.flag(
            "quantization.load_in_8bit",
            false,
            "int8 groups for the frozen matrices of the blocks; goes before load_in_4bit.");
    public static final Key<Boolean> DOUBLE =
            Key.flag("quantization.double_quantization", true, "Whether the scales of NF4 are quantized, too.");
    public static final Key<Integer> GROUP = Key.whole(
            "quantization.group_size", 128, 32, 4096, "Elements that share a scale in int8 groups: a multiple of 32.");
    public static final Key<String> METAL_STORAGE = Key.choice(
            "quantization.metal_storage", "int8", List.of("int8", "nf4"), "What load_in_4bit means on Metal.");
    public static final Key<Boolean> LORA =
            Key.flag("quantization.lora_enabled", true, "An adapter is trained; otherwise every weight.");
    public static final Key<Integer> RANK = Key.whole("quantization.lora_rank", 32, 1, 4096, "Rank of the updates.");
    public static final Key<Double> ALPHA = Key.number(
            "quantization.lora_alpha",
            64,
            1e-6,
            1e6,
            "Updates are scaled by alpha / rank, with use_rslora by alpha / sqrt(rank).");
    public static final Key<Double> DROPOUT =
            Key.number("quantization.lora_dropout", 0.05, 0, 0.99, "Share of an update's inputs that is dropped.");
    public static final Key<List<String>> TARGETS = Key.texts(
            "quantization.lora_target_modules",
            List.of("auto"),
            "Names of projections; `auto` is all of attention and MLP, of DeepSeek attention alone. `experts` is the stacks of a mixture.");
    public static final Key<String> BIAS =
            Key.choice("quantization.lora_bias", "none", List.of("none"), "Biases are not trained with an adapter.");
    public static final Key<Boolean> RSLORA = Key.flag("quantization.use_rslora", false, "Rank-stabilized scaling.");
    public static final Key<Boolean> DORA =
            Key.flag("quantization.use_dora", false, "Lengths and directions of weights are trained apart.");

    public static final Key<Integer> BATCH =
            Key.whole("optimization.batch_size", 2, 1, 1 << 16, "Sequences computed at one time.");
    public static final Key<Integer> ACCUMULATION = Key.whole(
            "optimization.gradient_accumulation_steps", 8, 1, 1 << 16, "Batches that make one optimizer step.");
    public static final Key<Double> RATE =
            Key.number("optimization.learning_rate", 2e-4, 0, 10, "Highest learning rate.");
    public static final Key<String> SCHEDULE = Key.choice(
            "optimization.lr_scheduler",
            "cosine",
            List.of("cosine", "linear", "constant", "wsd"),
            "How the rate falls after the warmup; `wsd` stays high and falls in the last fifth.");
    public static final Key<Integer> WARMUP_STEPS =
            Key.whole("optimization.warmup_steps", 0, 0, MANY, "Steps over which the rate rises; 0 is warmup_ratio.");
    public static final Key<Double> WARMUP_RATIO =
            Key.number("optimization.warmup_ratio", 0.03, 0, 1, "Share of all steps over which the rate rises.");
    public static final Key<String> OPTIMIZER = Key.choice(
            "optimization.optimizer",
            "adamw",
            List.of("adamw", "adamw_8bit"),
            "`adamw_8bit` keeps its state in 8 bits, block by block.");
    public static final Key<Double> DECAY = Key.number(
            "optimization.weight_decay",
            0.01,
            0,
            10,
            "Decoupled weight decay of matrices; norms and biases have none.");
    public static final Key<List<Double>> BETAS =
            Key.pair("optimization.betas", 0.9, 0.999, "Decay of the two moments.");
    public static final Key<Double> EPS =
            Key.number("optimization.eps", 1e-8, 0, 1, "Added to the root of the second moment.");
    public static final Key<Double> MAX_NORM = Key.number(
            "optimization.max_grad_norm", 1, 0, ANY, "Longer gradients are scaled to this; 0 is no clipping.");
    public static final Key<String> MIXED = Key.choice(
            "optimization.mixed_precision",
            "bf16",
            List.of("bf16", "fp16", "no"),
            "What products are computed in where the device can; the table of adaptations says what it does.");
    public static final Key<String> CHECKPOINTING = Key.choice(
            "optimization.gradient_checkpointing",
            "auto",
            List.of("true", "false", "auto"),
            "Blocks run again during backward instead of keeping what they computed; `auto` if memory asks for it.");
    public static final Key<Double> NEFTUNE =
            Key.number("optimization.neftune_alpha", 0, 0, 1000, "Noise on embeddings; 0 is none.");

    public static final Key<Integer> EPOCHS = Key.whole("training.num_epochs", 3, 1, 1 << 20, "Passes over the data.");
    public static final Key<Integer> MAX_STEPS =
            Key.whole("training.max_steps", 0, 0, MANY, "Optimizer steps; 0 is what the epochs give.");
    public static final Key<Integer> EVAL_STEPS =
            Key.whole("training.eval_steps", 200, 0, MANY, "Steps between evaluations; 0 is none but at the end.");
    public static final Key<Integer> SAVE_STEPS =
            Key.whole("training.save_steps", 500, 0, MANY, "Steps between checkpoints; 0 is none but at the end.");
    public static final Key<Integer> SAVE_LIMIT = Key.whole(
            "training.save_total_limit", 3, 1, MANY, "Checkpoints that are kept; the best and the latest always are.");
    public static final Key<Integer> LOGGING_STEPS = Key.whole(
            "training.logging_steps", 10, 1, MANY, "Steps between lines in a pipe; metrics.jsonl has every step.");
    public static final Key<Integer> SEED = Key.whole("training.seed", 42, 0, MANY, "Of all randomness.");
    public static final Key<Integer> PATIENCE = Key.whole(
            "training.patience", 3, 0, MANY, "Evaluations without improvement after which the run ends; 0 is never.");
    public static final Key<Double> MIN_DELTA =
            Key.number("training.min_delta", 1e-4, 0, ANY, "Less than this is no improvement.");
    public static final Key<Boolean> PACKING = Key.flag(
            "training.packing", true, "Documents share a sequence, without seeing each other; otherwise one each.");
    public static final Key<Double> FIM_RATE = Key.number(
            "training.fim_rate",
            0.5,
            0,
            1,
            "Share of documents turned into fill-in-the-middle, where the tokenizer can.");
    public static final Key<Double> SPM_RATE =
            Key.number("training.spm_rate", 0, 0, 1, "Share of those with the suffix first.");
    public static final Key<String> CURRICULUM = Key.choice(
            "training.curriculum",
            "none",
            List.of("none", "short_first"),
            "`short_first`: the first epoch goes from sequences of short documents to those of long ones.");
    public static final Key<Double> HALF_LIFE = Key.number(
            "training.recency_half_life_days",
            0,
            0,
            ANY,
            "Age that halves a document's weight in the loss; 0 is none.");
    public static final Key<Map<String, Double>> DIRECTORIES = Key.weights(
            "training.directory_weights", "Weights in the loss by directory, the longest that fits; others weigh 1.");
    public static final Key<String> SINCE =
            Key.text("training.since_commit", "", "Only documents of commits newer than this one; see model.adapter.");
    public static final Key<Integer> SAMPLES =
            Key.whole("training.samples", 2, 0, 32, "Texts the report shows as written before and after.");

    public static final Key<String> DATASET = Key.text("data.path", "", "A folder that the dataset verb wrote.");
    public static final Key<String> TRAIN = Key.text(
            "data.train", "", "A file instead: token_sequences.json, training_data_enhanced_*.json or .jsonl.");
    public static final Key<String> VALIDATION = Key.text("data.validation", "", "Such a file to evaluate on.");
    public static final Key<String> TEST = Key.text("data.test", "", "Such a file for the eval verb.");

    public static final Key<Integer> EVALUATION_TOKENS = Key.limit(
            "evaluation.max_tokens",
            200_000,
            "Held-out tokens to evaluate on at most: a sample drawn with training.seed, the same every time. 0 is all.");
    public static final Key<List<String>> PROMPTS = Key.texts(
            "evaluation.prompts",
            List.of(),
            "Beginnings that eval lets a model continue; none are some for the languages of the dataset.");
    public static final Key<String> PROMPT_LANGUAGE = Key.choice(
            "evaluation.language",
            "null",
            Stream.concat(Stream.of("null"), Behaviour.grammars()).toList(),
            "The language of evaluation.prompts, whose grammar they are held to; null is the dataset's first.");
    public static final Key<Integer> PROMPT_TOKENS =
            Key.whole("evaluation.prompt_tokens", 96, 1, 4096, "Tokens that a prompt is continued by, at most.");

    public static final Key<String> FORCE = Key.choice(
            "device.force",
            "null",
            List.of("null", "cpu", "cuda", "metal", "reference"),
            "The device; one that is missing is an error.");
    public static final Key<Integer> INDEX = Key.whole("device.index", 0, 0, 1024, "Which one of its kind.");
    public static final Key<String> ATTENTION = Key.choice(
            "device.attention", "auto", List.of("auto", "flash", "plain"), "`plain` runs attention as its definition.");
    public static final Key<Double> MEMORY_LIMIT =
            Key.number("device.memory_limit", 0, 0, ANY, "GiB to plan with; 0 is what is free.");
    public static final Key<Integer> THREADS = Key.whole(
            "device.threads", 0, 0, 4096, "Threads on the CPU; 0 is one for each core. Results do not depend on it.");
    public static final Key<String> METAL_PRECISION = Key.choice(
            "device.metal_precision", "auto", List.of("auto", "fp16", "bf16", "no"), "mixed_precision on Metal.");

    public static final Key<String> OUTPUT =
            Key.text("output.output_dir", "starforge-run", "Where the run is written.");
    public static final Key<Boolean> OVERWRITE = Key.flag(
            "output.overwrite", false, "Whether a run that is there may be replaced; not while it is being written.");

    public static final List<Key<?>> ALL = List.of(
            MODEL,
            DTYPE,
            CONTEXT,
            ADAPTER,
            HIDDEN,
            LAYERS,
            HEADS,
            KV_HEADS,
            INNER,
            VOCABULARY,
            FOUR_BIT,
            EIGHT_BIT,
            DOUBLE,
            GROUP,
            METAL_STORAGE,
            LORA,
            RANK,
            ALPHA,
            DROPOUT,
            TARGETS,
            BIAS,
            RSLORA,
            DORA,
            BATCH,
            ACCUMULATION,
            RATE,
            SCHEDULE,
            WARMUP_STEPS,
            WARMUP_RATIO,
            OPTIMIZER,
            DECAY,
            BETAS,
            EPS,
            MAX_NORM,
            MIXED,
            CHECKPOINTING,
            NEFTUNE,
            EPOCHS,
            MAX_STEPS,
            EVAL_STEPS,
            SAVE_STEPS,
            SAVE_LIMIT,
            LOGGING_STEPS,
            SEED,
            PATIENCE,
            MIN_DELTA,
            PACKING,
            FIM_RATE,
            SPM_RATE,
            CURRICULUM,
            HALF_LIFE,
            DIRECTORIES,
            SINCE,
            SAMPLES,
            DATASET,
            TRAIN,
            VALIDATION,
            TEST,
            EVALUATION_TOKENS,
            PROMPTS,
            PROMPT_LANGUAGE,
            PROMPT_TOKENS,
            FORCE,
            INDEX,
            ATTENTION,
            MEMORY_LIMIT,
            THREADS,
            METAL_PRECISION,
            OUTPUT,
            OVERWRITE);

    private Keys() {}
}
