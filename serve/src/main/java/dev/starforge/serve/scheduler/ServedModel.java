package dev.starforge.serve.scheduler;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.lora.AdapterTable;
import dev.starforge.serve.engine.ModelCard;
import java.util.Optional;
import java.util.Set;

/**
 * A model that was loaded on the engine's thread, and what it may take.
 *
 * @param adapters places for adapters, where there are any
 * @param endTokens that end a text
 * @param blocks of the KV cache
 * @param sequences in a step, at most
 * @param weightBytes on the device
 * @param release what is done on the same thread when the engine ends: gives everything back
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
