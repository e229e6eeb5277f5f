package dev.starforge.text.pretokenizer;

/** Receives pre-tokens: the next pre-tokenization stage, or the encoder at the end of the chain. */
@FunctionalInterface
public interface PreTokenSink {
    /**
     * Receives a non-empty pre-token.
     *
     * @param first true if it starts at the beginning of the input
     */
    void preToken(char[] text, int from, int to, boolean first);
}
