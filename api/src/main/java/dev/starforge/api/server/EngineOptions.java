package dev.starforge.api.server;

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

    private static void positive(String option, int value) {
        if (value < 1) {
            throw new InvalidOptionException(option, "expected at least 1, got " + value);
        }
    }
}
