package dev.starforge.text.tokenizer;

/**
 * Decodes what follows a prompt, id by id. The decoder sees the prompt first: a first word has no space before it in some
 * vocabularies, and a completion does not begin with a first word. For one thread.
 */
public final class CompletionDecodeStream {
    private final DecodeStream stream;
    private String pendingPrompt;
    private int again;

    public CompletionDecodeStream(Tokenizer tokenizer, int... prompt) {
        this(tokenizer, HealedPrompt.asIs(prompt));
    }

    /** What a healed prompt has written again is not told. */
    public CompletionDecodeStream(Tokenizer tokenizer, HealedPrompt healed) {
        int[] prompt = healed.ids();
        again = healed.characters();
        stream = tokenizer.stream(true);
        int shown = 0;
        for (int id : prompt) {
            shown += stream.push(id).length();
        }
        pendingPrompt = tokenizer.decode(prompt, true).substring(shown);
    }

    /** The text that this id makes certain: whole characters only. */
    public String push(int id) {
        return onlyNew(withoutPrompt(stream.push(id)));
    }

    /** The rest; a character that will not be completed is U+FFFD. */
    public String finish() {
        return onlyNew(withoutPrompt(stream.finish()));
    }

    private String onlyNew(String piece) {
        int told = Math.min(again, piece.length());
        again -= told;
        return piece.substring(told);
    }

    /** A decoder may hold the prompt's last characters back until it sees what follows. */
    private String withoutPrompt(String piece) {
        if (piece.isEmpty() || pendingPrompt.isEmpty()) {
            return piece;
        }
        String own = piece.startsWith(pendingPrompt) ? piece.substring(pendingPrompt.length()) : piece;
        pendingPrompt = "";
        return own;
    }
}
