package dev.starforge.text.bpe;

/** What turns words into ids. */
public sealed interface TokenModel permits Bpe, SentencePieceBpe {
    Vocabulary vocabulary();

    /** An encoder for one thread. */
    WordEncoder encoder();

    /**
     * Whether no merge can join a character to a mark that follows it. Then cutting the text before each run of marks
     * changes nothing, and a text without a pre-tokenizer becomes words that repeat.
     */
    boolean neverMergesOnto(char mark);

    /** Whether a mark follows another character in a token. */
    static boolean hasInnerMark(String token, char mark) {
        for (int i = 1; i < token.length(); i++) {
            if (token.charAt(i) == mark && token.charAt(i - 1) != mark) {
                return true;
            }
        }
        return false;
    }
}
