package dev.starforge.serve.engine;

import java.util.List;

/**
 * A token of a text.
 *
 * @param logprob of the model's own distribution, before temperature and the rest; 0 unless asked for
 * @param top the most likely tokens in order, as many as were asked for
 */
public record GeneratedToken(int id, float logprob, List<TopLogprob> top) {
    public GeneratedToken {
        top = List.copyOf(top);
    }

    public record TopLogprob(int id, float logprob) {}
}
