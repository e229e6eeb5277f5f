package dev.starforge.serve.engine;

import java.util.List;
import java.util.Set;
import java.util.function.Supplier;

/**
 * When generation of a sequence stops.
 *
 * @param maxTokens limit of generated tokens; 0 only fills the KV cache with the prompt
 * @param tokens token ids that stop generation, in addition to the model's end-of-text tokens
 * @param ignoreEos generation continues after the model's end-of-text tokens; for benchmarks
 * @param strings stop strings
 * @param firstLineStrings stop strings that end the text only up to its first line break
 * @param outputLimit creates the limit of one sequence
 */
public record StopConditions(
        int maxTokens,
        Set<Integer> tokens,
        boolean ignoreEos,
        List<String> strings,
        List<String> firstLineStrings,
        Supplier<OutputLimit> outputLimit) {
    public StopConditions {
        tokens = Set.copyOf(tokens);
        strings = List.copyOf(strings);
        firstLineStrings = List.copyOf(firstLineStrings);
    }

    /** Stops at an end-of-text token, at one of {@code tokens}, or after {@code maxTokens}. */
    public StopConditions(int maxTokens, Set<Integer> tokens, boolean ignoreEos) {
        this(maxTokens, tokens, ignoreEos, List.of(), List.of(), () -> OutputLimit.NONE);
    }

    public StopConditions withStrings(List<String> value) {
        return new StopConditions(maxTokens, tokens, ignoreEos, value, firstLineStrings, outputLimit);
    }

    public StopConditions withFirstLineStrings(List<String> value) {
        return new StopConditions(maxTokens, tokens, ignoreEos, strings, value, outputLimit);
    }

    public StopConditions withOutputLimit(Supplier<OutputLimit> value) {
        return new StopConditions(maxTokens, tokens, ignoreEos, strings, firstLineStrings, value);
    }
}
