package dev.starforge.api;

/** Receives generated text while it is streamed. */
@FunctionalInterface
public interface TextListener {
    /**
     * Receives the next piece of text. Pieces contain whole characters; concatenated they are the completion.
     *
     * @param piece the next piece, not empty
     * @return true to continue, false to end generation
     */
    boolean onText(String piece);
}
