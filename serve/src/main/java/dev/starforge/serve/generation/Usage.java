package dev.starforge.serve.generation;

/**
 * Token counts of a sequence.
 *
 * @param cachedTokens prompt tokens found in the prefix cache
 */
public record Usage(int promptTokens, int cachedTokens, int completionTokens) {
    public static final Usage NONE = new Usage(0, 0, 0);
}
