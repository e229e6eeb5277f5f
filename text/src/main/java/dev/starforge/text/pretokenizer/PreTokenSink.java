package dev.starforge.text.pretokenizer;

/** Takes pieces of text: a stage of pre-tokenization, and at the end of them the encoder of words. */
@FunctionalInterface
public interface PreTokenSink {
    /**
     * A piece that is not empty.
     *
     * @param first whether it begins where the whole text begins
     */
    void preToken(char[] text, int from, int to, boolean first);
}
