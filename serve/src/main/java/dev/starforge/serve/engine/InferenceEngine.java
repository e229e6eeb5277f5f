package dev.starforge.serve.engine;

import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * What serves tokens: a model on a device, and whatever decides which sequences the next step computes. HTTP knows nothing
 * else of it. Called by many threads; every method returns without waiting for the device, but for the loading of adapters.
 */
public interface InferenceEngine {
    ModelCard card();

    /** How it is at this moment; asked by every health check. */
    EngineStatus status();

    /**
     * Takes a sequence in; its tokens and its end go to the sink, on the engine's own thread.
     *
     * @throws EngineException when the queue is full, when the request could never fit, or when it names an unknown adapter
     */
    SequenceHandle submit(GenerationRequest request, TokenSink sink);

    /**
     * For each text the mean of the last hidden states, of length 1 (L2). Cancelling the future cancels the work.
     *
     * @throws EngineException as {@link #submit}
     */
    CompletableFuture<List<float[]>> embed(List<int[]> texts, String adapter);

    /** Whether there is room for adapters at all. */
    boolean takesAdapters();

    List<AdapterCard> adapters();

    /**
     * Loads a LoRA adapter that requests can name from then on.
     *
     * @throws EngineException when the name is taken, there is no room for one more, or the files are no adapter of this model
     */
    void loadAdapter(String name, Path folder);

    /**
     * Takes an adapter away once the sequences that use it have ended.
     *
     * @throws EngineException when nobody knows it
     */
    void unloadAdapter(String name);
}
