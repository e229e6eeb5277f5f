package dev.starforge.api;

/** Hears a text while it is written. */
@FunctionalInterface
public interface TextListener {
    /**
     * The next piece: whole characters only, and all pieces joined are the text.
     *
     * @param piece what is certain now; not empty
     * @return whether more is wanted
     */
    boolean onText(String piece);
}
