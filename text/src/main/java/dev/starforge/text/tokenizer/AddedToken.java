package dev.starforge.text.tokenizer;

/**
 * A token that is found in the text before anything else is done with it.
 *
 * @param singleWord only where it is not part of a longer word
 * @param stripLeft takes the white space before it along
 * @param stripRight takes the white space after it along
 * @param normalized is looked for in the normalized text, in its own normalized form
 * @param special is left out by a decode that skips special tokens
 */
public record AddedToken(
        int id,
        String content,
        boolean singleWord,
        boolean stripLeft,
        boolean stripRight,
        boolean normalized,
        boolean special) {

    /** The usual kind: a marker such as {@code <|endoftext|>} that matches anywhere in the raw text. */
    public static AddedToken special(int id, String content) {
        return new AddedToken(id, content, false, false, false, false, true);
    }
}
