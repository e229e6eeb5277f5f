package dev.starforge.data;

/** Takes pieces of text: a stage of pre-tokenization, and at the end of them the encoder of words. */
@FunctionalInterface
interface Pieces {
    /**
     * A piece that is not empty.
     *
     * @param first whether it begins where the whole text begins
     */
    void piece(char[] text, int from, int to, boolean first);
}
