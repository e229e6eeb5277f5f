package dev.starforge.text.pretokenizer;

/** Replaces each match of a pattern; used as a normalizer and as a decoder. */
public record Replacement(Splitter splitter, String content) {
    public String apply(String text, PatternBudget budget) {
        if (text.isEmpty()) {
            return text;
        }
        char[] chars = text.toCharArray();
        MatchSpans splits = new MatchSpans();
        splitter.split(chars, 0, chars.length, budget, splits);
        StringBuilder out = new StringBuilder(chars.length);
        for (int i = 0; i < splits.size(); i++) {
            if (splits.match(i)) {
                budget.write(content.length());
                out.append(content);
            } else {
                out.append(chars, splits.start(i), splits.end(i) - splits.start(i));
            }
        }
        return out.toString();
    }
}
