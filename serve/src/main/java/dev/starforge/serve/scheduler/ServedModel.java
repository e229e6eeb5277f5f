package dev.starforge.serve.scheduler;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.lora.AdapterTable;
import dev.starforge.serve.engine.ModelCard;
import java.util.Optional;
import java.util.Set;

/**
 * A model that was loaded on the engine's thread, and its limits.
 *
 * @param adapters table of LoRA adapters; empty if the worker has no adapter slots
 * @param endTokens end-of-text tokens
 * @param blocks number of KV blocks
 * @param sequences maximum number of running sequences
 * @param weightBytes bytes of weights on the device
 * @param release frees everything; runs on the engine's thread when the engine ends
 */
public record ServedModel(
        ModelCard card,
        Engine engine,
        Optional<AdapterTable> adapters,
        Set<Integer> endTokens,
        int blocks,
        int sequences,
        long weightBytes,
        Runnable release) {
    public ServedModel {
        endTokens = Set.copyOf(endTokens);
    }
}
