package dev.starforge.text.tokenizer;

/**
 * A token that is matched in the input before pre-tokenization.
 *
 * @param singleWord match only whole words
 * @param stripLeft include white space before the match
 * @param stripRight include white space after the match
 * @param normalized match in normalized text, in normalized form
 * @param special omitted by a decode that skips special tokens
 */
public record AddedToken(
        int id,
        String content,
        boolean singleWord,
        boolean stripLeft,
        boolean stripRight,
        boolean normalized,
        boolean special) {

    /** Creates a marker such as {@code <|endoftext|>} that matches anywhere in the raw text. */
    public static AddedToken special(int id, String content) {
        return new AddedToken(id, content, false, false, false, false, true);
    }
}
