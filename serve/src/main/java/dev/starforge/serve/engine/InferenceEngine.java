package dev.starforge.serve.engine;

import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * A model on a device with its scheduler; all that the HTTP APIs know of it. Thread-safe. No method waits for the device, except
 * loading and unloading adapters.
 */
public interface InferenceEngine {
    ModelCard card();

    EngineStatus status();

    /**
     * Submits a sequence; the sink receives its tokens and its end on the engine's thread.
     *
     * @throws EngineException if the queue is full, the request can never fit, or the adapter is unknown
     */
    SequenceHandle submit(GenerationRequest request, TokenSink sink);

    /**
     * Computes an embedding for each input: the L2-normalized mean of the last hidden states. Cancelling the future cancels the request.
     *
     * @throws EngineException as {@link #submit}
     */
    CompletableFuture<List<float[]>> embed(List<int[]> inputs, String adapter);

    /** Returns true if the engine has adapter slots. */
    boolean takesAdapters();

    List<AdapterCard> adapters();

    /** Returns the adapter for a model name: itself if it is loaded, none for the base, and the default for any other name. */
    default String adapterOf(String model) {
        if (adapters().stream().map(AdapterCard::name).anyMatch(model::equals)) {
            return model;
        }
        return model.equals(card().untuned()) ? "" : card().defaultAdapter();
    }

    /**
     * Loads a LoRA adapter.
     *
     * @throws EngineException if the name is taken, no slot is free, or the files are not an adapter of this model
     */
    void loadAdapter(String name, Path folder);

    /**
     * Unloads an adapter. Running sequences keep using it.
     *
     * @throws EngineException if no adapter has this name
     */
    void unloadAdapter(String name);
}
