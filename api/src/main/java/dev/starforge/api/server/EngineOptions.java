package dev.starforge.api.server;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.train.text.ChatTemplates;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * How a served model is loaded, and how much it serves at once.
 *
 * @param maxBatch maximum number of sequences in a batch
 * @param maxQueue maximum number of requests, including waiting ones
 * @param context maximum number of tokens of prompt and completion; empty for the context length of the model
 * @param kvBytes bytes of the KV cache; 0 for enough full contexts for {@code maxBatch}, but at most a quarter of the free memory
 * @param adapters LoRA adapters that requests can select by name
 * @param maxAdapters maximum number of loaded adapters
 * @param maxLoraRank maximum rank of an adapter
 * @param base name of the weights without adapter, if the adapter with the name of the model is applied by default; empty if none is
 * @param sample a prompt to try the model with
 * @param chatTemplate a Jinja chat template; empty for the template of the model
 */
public record EngineOptions(
        Precision precision,
        Fallback fallback,
        int maxBatch,
        int maxQueue,
        Optional<Integer> context,
        long kvBytes,
        Map<String, Path> adapters,
        int maxAdapters,
        int maxLoraRank,
        String base,
        Optional<ModelCard.SamplePrompt> sample,
        Optional<ChatTemplates.Source> chatTemplate) {
    private static final int LARGEST_BATCH = 64;

    /** Checks the values that do not depend on a model. */
    public EngineOptions {
        adapters = new LinkedHashMap<>(adapters);
        if (maxBatch < 1 || maxBatch > LARGEST_BATCH) {
            throw new InvalidOptionException("max-batch", "expected 1 to " + LARGEST_BATCH + ", got " + maxBatch);
        }
        positive("max-queue", maxQueue);
        positive("max-lora-rank", maxLoraRank);
        if (adapters.containsKey("")) {
            throw new InvalidOptionException("adapter", "expected NAME=DIR, got an empty name");
        }
        if (maxAdapters < adapters.size()) {
            throw new InvalidOptionException(
                    "max-adapters",
                    "expected at least " + adapters.size() + ", the number of adapters, got " + maxAdapters);
        }
    }

    /** Without a default adapter and a sample prompt. */
    public EngineOptions(
            Precision precision,
            Fallback fallback,
            int maxBatch,
            int maxQueue,
            Optional<Integer> context,
            long kvBytes,
            Map<String, Path> adapters,
            int maxAdapters,
            int maxLoraRank,
            Optional<ChatTemplates.Source> chatTemplate) {
        this(
                precision,
                fallback,
                maxBatch,
                maxQueue,
                context,
                kvBytes,
                adapters,
                maxAdapters,
                maxLoraRank,
                "",
                Optional.empty(),
                chatTemplate);
    }

    /** With a prompt to try the model with. */
    public EngineOptions withSample(ModelCard.SamplePrompt prompt) {
        return new EngineOptions(
                precision,
                fallback,
                maxBatch,
                maxQueue,
                context,
                kvBytes,
                adapters,
                maxAdapters,
                maxLoraRank,
                base,
                Optional.of(prompt),
                chatTemplate);
    }

    /**
     * With one more adapter, which is applied by default.
     *
     * @param name its name, which is that of the served model
     * @param untuned name of the weights without it
     */
    public EngineOptions withDefaultAdapter(String name, Path adapter, String untuned) {
        Map<String, Path> all = new LinkedHashMap<>(adapters);
        all.put(name, adapter);
        return new EngineOptions(
                precision,
                fallback,
                maxBatch,
                maxQueue,
                context,
                kvBytes,
                all,
                maxAdapters + 1,
                Math.max(maxLoraRank, rank(adapter)),
                untuned,
                sample,
                chatTemplate);
    }

    private static int rank(Path adapter) {
        return JsonConfig.read(adapter.resolve(LoraAdapter.CONFIG)).size("r", 1);
    }

    private static void positive(String option, int value) {
        if (value < 1) {
            throw new InvalidOptionException(option, "expected at least 1, got " + value);
        }
    }
}
