package dev.starforge.train.weights;

import dev.starforge.model.load.ModelSpec;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.text.config.ConfigException;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.text.trainer.BpeTrainer;
import dev.starforge.text.trainer.TrainedTokenizer;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.RunFolder;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/**
 * A randomly initialized model with the StarCoder2 architecture: a tokenizer (the dataset's or a newly trained one), a config,
 * and weights drawn with the run's seed. Created once in the folder {@code base} of the run.
 */
public final class ScratchModel {
    public static final String NAME = "scratch";

    private static final List<String> SPECIAL = List.of(
            "<|endoftext|>",
            "<fim_prefix>",
            "<fim_middle>",
            "<fim_suffix>",
            "<fim_pad>",
            "<repo_name>",
            "<file_sep>",
            "<issue_start>",
            "<issue_comment>",
            "<issue_closed>",
            "<jupyter_start>",
            "<jupyter_text>",
            "<jupyter_code>",
            "<jupyter_output>",
            "<jupyter_script>",
            "<empty_output>",
            "<code_to_intermediate>",
            "<intermediate_to_code>",
            "<pr>",
            "<pr_status>",
            "<pr_is_merged>",
            "<pr_base>",
            "<pr_file>",
            "<pr_base_code>",
            "<pr_diff>",
            "<pr_diff_hunk>",
            "<pr_comment>",
            "<pr_event_id>",
            "<pr_review>",
            "<pr_review_state>",
            "<pr_review_comment>",
            "<pr_in_reply_to_review_id>",
            "<pr_in_reply_to_comment_id>",
            "<pr_diff_hunk_comment_line>",
            "<NAME>",
            "<EMAIL>",
            "<KEY>",
            "<PASSWORD>");

    private ScratchModel() {}

    /**
     * A new model that is not written yet.
     *
     * @param tokenizerFile writes the tokenizer to a path
     */
    public record Draft(ModelSpec blueprint, Tokenizer tokenizer, Consumer<Path> tokenizerFile) {}

    /** Plans the new model: reads or trains its tokenizer and derives its sizes from the settings. */
    public static Draft draft(RunConfig config) {
        json(config, config.get(Keys.VOCABULARY)); // rejects wrong sizes before training a tokenizer
        if (!config.get(Keys.DATASET).isEmpty()) {
            Path own = Path.of(config.get(Keys.DATASET)).resolve("tokenizer.json");
            if (!Files.isRegularFile(own)) {
                throw config.wrong(
                        Keys.DATASET,
                        "a new model needs the dataset's tokenizer, but the dataset has no tokenizer.json");
            }
            return draft(config, Tokenizer.read(own), file -> copy(own, file));
        }
        Path texts = Path.of(config.get(Keys.TRAIN));
        if (!Files.isRegularFile(texts) || !texts.toString().endsWith(".jsonl")) {
            throw config.wrong(
                    Keys.TRAIN,
                    "a new model's tokenizer is trained on text: set data.path to a dataset, or data.train to a .jsonl"
                            + " file");
        }
        TrainedTokenizer trained = BpeTrainer.train(
                        texts(texts).iterator(),
                        new BpeTrainer.Settings(
                                config.get(Keys.VOCABULARY), SPECIAL, BpeTrainer.Splitting.STARCODER2, 2))
                .beginningWith(SPECIAL.getFirst());
        return draft(config, trained.tokenizer(), trained::write);
    }

    private static Draft draft(RunConfig config, Tokenizer tokenizer, Consumer<Path> file) {
        int size = (tokenizer.size() + 63) / 64 * 64;
        return new Draft(ModelSpec.of("scratch/config.json", json(config, size)), tokenizer, file);
    }

    private static void copy(Path from, Path to) {
        try {
            Files.copy(from, to);
        } catch (IOException failure) {
            throw new TrainException(to + ": cannot be written: " + failure, failure);
        }
    }

    /** Returns the folder of the new model. Creates it atomically if it does not exist. */
    public static Path prepare(RunConfig config, Draft draft, Device device) {
        Path run = Path.of(config.get(Keys.OUTPUT));
        Path base = run.resolve(RunFolder.BASE);
        if (Files.isDirectory(base)) {
            return base;
        }
        Path partial = run.resolve(Checkpoints.PARTIAL + RunFolder.BASE);
        Checkpoints.remove(partial);
        try {
            Files.createDirectories(partial);
            draft.tokenizerFile().accept(partial.resolve("tokenizer.json"));
            draft.blueprint()
                    .initialize(
                            partial,
                            config.get(Keys.SEED),
                            new NullOps(device, Precision.FLOAT32, Fallback.QUIET).scope());
            Files.move(partial, base, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException failure) {
            throw new TrainException(base + ": cannot be written: " + failure, failure);
        } finally {
            Checkpoints.remove(partial);
        }
        return base;
    }

    /** The spec of the new model, with the largest possible vocabulary. */
    public static ModelSpec blueprint(RunConfig config) {
        return ModelSpec.of("scratch/config.json", json(config, config.get(Keys.VOCABULARY)));
    }

    private static List<String> texts(Path file) {
        List<String> texts = new ArrayList<>();
        try (BufferedReader reader = Files.newBufferedReader(file)) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                if (!line.isBlank()) {
                    JsonNode node = Jackson.JSON.readTree(line);
                    texts.add(node.path("text").asString("")
                            + node.path("prompt").asString("")
                            + node.path("completion").asString(""));
                }
            }
        } catch (IOException failure) {
            throw new ConfigException(file + ": cannot be read: " + failure, failure);
        } catch (JacksonException failure) {
            throw new ConfigException(file + ": line " + (texts.size() + 1) + ": is not JSON", failure);
        }
        return texts;
    }

    /** The config of the new model, with its final vocabulary size. */
    static String json(RunConfig config, int vocabulary) {
        int width = config.get(Keys.HIDDEN);
        int heads = config.get(Keys.HEADS);
        int kv = config.get(Keys.KV_HEADS);
        if (width % heads != 0 || width / heads % 2 != 0 || heads % kv != 0) {
            throw config.wrong(
                    Keys.HEADS,
                    "expected a divisor of the hidden size " + width
                            + " that gives an even head dim, and a multiple of " + kv);
        }
        int inner = config.get(Keys.INNER) == 0 ? 4 * width : config.get(Keys.INNER);
        return String.format(
                Locale.ROOT,
                """
                {"architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2", "vocab_size": %d,
                 "hidden_size": %d, "intermediate_size": %d, "num_hidden_layers": %d, "num_attention_heads": %d,
                 "num_key_value_heads": %d, "max_position_embeddings": %d, "norm_epsilon": 1e-05, "use_bias": true,
                 "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": true, "sliding_window": null,
                 "rope_theta": 100000.0, "bos_token_id": 0, "eos_token_id": 0, "dtype": "float32",
                 "initializer_range": 0.02, "attention_dropout": 0.0, "embedding_dropout": 0.0, "residual_dropout": 0.0}
                """,
                vocabulary,
                width,
                inner,
                config.get(Keys.LAYERS),
                heads,
                kv,
                config.get(Keys.CONTEXT));
    }
}
