package dev.starforge.text.tokenizer;

import dev.starforge.text.pretokenizer.PatternBudget;

/**
 * Decodes ids one by one into text that can be shown at once: whole characters only, and all pushes joined with the
 * finish are exactly what {@link Tokenizer#decode} gives for all ids together. For one thread.
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

    /** The text that this id completes; empty while a character is incomplete. */
    public String push(int id) {
        if (tokenizer.has(id) && !(skipSpecial && tokenizer.isSpecial(id))) {
            String token = tokenizer.token(id);
            pushed += token.length();
            budget.begin(token.length());
            stages.accept(token, true);
        }
        return take();
    }

    /** The remaining text; an incomplete character becomes U+FFFD. Ends the stream. */
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
