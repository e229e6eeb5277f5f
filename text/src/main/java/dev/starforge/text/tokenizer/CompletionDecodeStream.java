package dev.starforge.text.tokenizer;

/**
 * Decodes a completion, id by id. The decoder sees the prompt first, because some vocabularies drop the space before the
 * first word of a sequence, and a completion does not start one. Not thread-safe.
 */
public final class CompletionDecodeStream {
    private final DecodeStream stream;
    private String pendingPrompt;
    private int again;

    public CompletionDecodeStream(Tokenizer tokenizer, int... prompt) {
        this(tokenizer, HealedPrompt.asIs(prompt));
    }

    /** Excludes text that token healing generates again. */
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

    /** Returns the text that this id completes; whole characters only. */
    public String push(int id) {
        return onlyNew(withoutPrompt(stream.push(id)));
    }

    /** Returns the remaining text; an incomplete character becomes U+FFFD. */
    public String finish() {
        return onlyNew(withoutPrompt(stream.finish()));
    }

    private String onlyNew(String piece) {
        int repeated = Math.min(again, piece.length());
        again -= repeated;
        return piece.substring(repeated);
    }

    /** Removes the prompt's text, which the decoder may hold back until it sees the next id. */
    private String withoutPrompt(String piece) {
        if (piece.isEmpty() || pendingPrompt.isEmpty()) {
            return piece;
        }
        String own = piece.startsWith(pendingPrompt) ? piece.substring(pendingPrompt.length()) : piece;
        pendingPrompt = "";
        return own;
    }
}
