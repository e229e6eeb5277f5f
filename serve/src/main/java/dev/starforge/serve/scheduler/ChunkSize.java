package dev.starforge.serve.scheduler;

/**
 * How many tokens of prompts a step may take: as many as took {@link #TARGET} lately, since so long every running text waits
 * for its next token.
 */
final class ChunkSize {
    private static final long TARGET = 150_000_000; // ns
    private static final int FEWEST = 16;
    private static final int MOST = 2048;

    private double perToken = (double) TARGET / 128;

    int tokens() {
        return (int) Math.clamp(TARGET / perToken, FEWEST, MOST);
    }

    /** What is left of it beside so many tokens; never nothing, so that nobody waits for ever. */
    int tokensBeside(int taken) {
        return Math.max(FEWEST, tokens() - taken);
    }

    /** A step took so long with so many tokens, of which most were of prompts. */
    void took(long nanos, int tokens) {
        perToken += ((double) nanos / tokens - perToken) / 2;
    }
}
