package dev.starforge.serve.generation;

import dev.starforge.serve.engine.GenerationRequest;
import java.util.List;
import java.util.function.Supplier;

/**
 * A sequence that is wanted: what the engine is to do, and where its text ends.
 *
 * @param limit made for each sequence
 */
public record Prompt(GenerationRequest request, List<String> stops, Supplier<OutputLimit> limit) {
    public Prompt(GenerationRequest request, List<String> stops) {
        this(request, stops, () -> OutputLimit.NONE);
    }
}
