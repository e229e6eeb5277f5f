package dev.starforge.serve.engine;

import dev.starforge.model.generate.SamplingParams;
import dev.starforge.text.tokenizer.HealedPrompt;
import java.util.Set;

/**
 * A sequence to continue.
 *
 * @param text its tokens, of which the last may be spelled again
 * @param maxTokens 0 only fills the cache with the prompt
 * @param stopTokens that end the text besides the model's own end-of-text tokens
 * @param ignoreEos whether the model's own do not end it, as benchmarks want it
 * @param logprobs how many of the most likely tokens to tell with each; 0 the chosen one alone, {@link #NO_LOGPROBS} nothing
 * @param adapter a LoRA adapter by name; empty is the model as it is
 * @param tenant whose request it is: cached prefixes are shared within a tenant only
 */
public record GenerationRequest(
        HealedPrompt text,
        int maxTokens,
        SamplingParams sampling,
        Set<Integer> stopTokens,
        boolean ignoreEos,
        int logprobs,
        String adapter,
        String tenant) {
    public static final int NO_LOGPROBS = -1;

    public GenerationRequest {
        if (text.ids().length == 0 || maxTokens < 0 || logprobs < NO_LOGPROBS) {
            throw new IllegalArgumentException("generation: expected a prompt, and max_tokens of 0 or more; got "
                    + text.ids().length + " tokens, max_tokens " + maxTokens + ", logprobs " + logprobs);
        }
        stopTokens = Set.copyOf(stopTokens);
    }

    /** With a prompt as it is. */
    public GenerationRequest(
            int[] prompt,
            int maxTokens,
            SamplingParams sampling,
            Set<Integer> stopTokens,
            int logprobs,
            String adapter,
            String tenant) {
        this(HealedPrompt.asIs(prompt), maxTokens, sampling, stopTokens, false, logprobs, adapter, tenant);
    }

    public int[] prompt() {
        return text.ids();
    }
}
