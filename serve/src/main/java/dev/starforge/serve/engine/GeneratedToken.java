package dev.starforge.serve.engine;

import java.util.List;

/**
 * A generated token.
 *
 * @param logprob log probability before temperature and other samplers; 0 unless requested
 * @param top the most likely tokens, in order, as many as requested
 */
public record GeneratedToken(int id, float logprob, List<TopLogprob> top) {
    public GeneratedToken {
        top = List.copyOf(top);
    }

    public record TopLogprob(int id, float logprob) {}
}
