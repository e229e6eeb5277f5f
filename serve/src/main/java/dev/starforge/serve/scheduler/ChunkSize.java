package dev.starforge.serve.scheduler;

/**
 * The number of prompt tokens in a step (chunked prefill): as many as took {@link #TARGET_NANOS} recently, since every running
 * sequence waits that long for its next token.
 */
final class ChunkSize {
    private static final long TARGET_NANOS = 150_000_000;
    private static final int MIN_TOKENS = 16;
    private static final int MAX_TOKENS = 2048;

    private double nanosPerToken = (double) TARGET_NANOS / 128;

    int tokens() {
        return (int) Math.clamp(TARGET_NANOS / nanosPerToken, MIN_TOKENS, MAX_TOKENS);
    }

    /** The tokens left in a step that already has {@code used}; at least {@code MIN_TOKENS}, so that nothing starves. */
    int tokensBeside(int used) {
        return Math.max(MIN_TOKENS, tokens() - used);
    }

    /** Records the duration of a step that was mostly prefill. */
    void record(long nanos, int tokens) {
        nanosPerToken += ((double) nanos / tokens - nanosPerToken) / 2;
    }
}
