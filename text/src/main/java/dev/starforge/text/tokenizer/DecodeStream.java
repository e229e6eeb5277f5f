package dev.starforge.text.tokenizer;

import dev.starforge.text.pretokenizer.PatternBudget;

/**
 * Decodes ids one by one into whole characters. The concatenated output equals {@link Tokenizer#decode} of all ids. Not
 * thread-safe.
 */
public final class DecodeStream {
    private final Tokenizer tokenizer;
    private final PatternBudget budget;
    private final boolean skipSpecial;
    private final StringBuilder ready = new StringBuilder();
    private final Decoder.Stage stages;
    private long pushed;

    DecodeStream(Tokenizer tokenizer, Decoder decoder, PatternBudget budget, boolean skipSpecial) {
        this.tokenizer = tokenizer;
        this.budget = budget;
        this.skipSpecial = skipSpecial;
        stages = decoder.onto(
                new Decoder.Stage() {
                    @Override
                    public void accept(String part, boolean last) {
                        ready.append(part);
                    }

                    @Override
                    public void finish() {}
                },
                budget);
    }

    /** Returns the text that this id completes; empty while a character is incomplete. */
    public String push(int id) {
        if (tokenizer.has(id) && !(skipSpecial && tokenizer.isSpecial(id))) {
            String token = tokenizer.token(id);
            pushed += token.length();
            budget.begin(token.length());
            stages.accept(token, true);
        }
        return take();
    }

    /** Returns the remaining text and ends the stream; an incomplete character becomes U+FFFD. */
    public String finish() {
        budget.begin(pushed);
        stages.finish();
        return take();
    }

    private String take() {
        String text = ready.toString();
        ready.setLength(0);
        return text;
    }
}
