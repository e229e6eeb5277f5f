package dev.starforge.serve.engine;

import dev.starforge.model.generate.SamplingParams;
import dev.starforge.text.tokenizer.HealedPrompt;
import java.util.Set;

/**
 * One sequence to generate.
 *
 * @param healedPrompt the prompt's token ids; with token healing, the first generated tokens are constrained
 * @param logprobs number of top log probabilities returned with each token; 0 returns only that of the sampled token, {@link
 *     #NO_LOGPROBS} none
 * @param adapter name of a LoRA adapter; empty for the base model
 * @param tenant cached prefixes are shared only within a tenant
 */
public record GenerationRequest(
        HealedPrompt healedPrompt,
        SamplingParams sampling,
        StopConditions stop,
        int logprobs,
        String adapter,
        String tenant) {
    public static final int NO_LOGPROBS = -1;

    public GenerationRequest {
        if (healedPrompt.ids().length == 0 || stop.maxTokens() < 0 || logprobs < NO_LOGPROBS) {
            throw new IllegalArgumentException("generation: expected a prompt, and max_tokens of 0 or more; got "
                    + healedPrompt.ids().length + " tokens, max_tokens " + stop.maxTokens() + ", logprobs " + logprobs);
        }
    }

    /** Without token healing and stop strings. */
    public GenerationRequest(
            int[] prompt,
            int maxTokens,
            SamplingParams sampling,
            Set<Integer> stopTokens,
            int logprobs,
            String adapter,
            String tenant) {
        this(
                HealedPrompt.asIs(prompt),
                sampling,
                new StopConditions(maxTokens, stopTokens, false),
                logprobs,
                adapter,
                tenant);
    }

    public int[] prompt() {
        return healedPrompt.ids();
    }

    public int maxTokens() {
        return stop.maxTokens();
    }
}
