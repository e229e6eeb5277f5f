package dev.starforge.text.bpe;

/** Turns pre-tokens into token ids. */
public sealed interface TokenModel permits Bpe, SentencePieceBpe {
    Vocabulary vocabulary();

    /** Creates an encoder for use by one thread. */
    WordEncoder encoder();

    /**
     * Returns true if no merge joins a character to a mark that follows it. Splitting before each run of marks then
     * does not change the ids, and makes input without a pre-tokenizer cacheable word by word.
     */
    boolean neverMergesOnto(char mark);

    /** Returns true if a mark follows another character in the token. */
    static boolean hasInnerMark(String token, char mark) {
        for (int i = 1; i < token.length(); i++) {
            if (token.charAt(i) == mark && token.charAt(i - 1) != mark) {
                return true;
            }
        }
        return false;
    }
}
