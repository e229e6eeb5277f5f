package dev.starforge.text.tokenizer;

import dev.starforge.text.pretokenizer.CharacterClass;
import dev.starforge.text.pretokenizer.Normalizer;
import dev.starforge.text.pretokenizer.PatternBudget;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;

/** The added tokens of a tokenizer. Splits input at them: leftmost first, the longest of several. */
final class AddedTokens {
    private final Map<Integer, AddedToken> byId = new HashMap<>();
    private final Trie raw = new Trie();
    private final Trie normalized = new Trie();

    /** Receives the parts of the input in order. */
    interface Parts {
        void text(int from, int to);

        void token(int id);
    }

    AddedTokens(Collection<AddedToken> tokens, Normalizer normalizer, PatternBudget budget) {
        for (AddedToken token : tokens) {
            byId.put(token.id(), token);
            if (!token.normalized()) {
                raw.add(token.content(), token.id());
                continue;
            }
            budget.begin(token.content().length());
            String pattern = normalizer.apply(token.content(), budget);
            if (!pattern.isEmpty()) {
                normalized.add(pattern, token.id());
            }
        }
    }

    Collection<AddedToken> all() {
        return byId.values();
    }

    boolean isSpecial(int id) {
        AddedToken token = byId.get(id);
        return token != null && token.special();
    }

    /** @param mark see {@link SpecialTokenMarks} */
    void splitRaw(String text, char mark, Parts parts) {
        split(text, raw, mark, parts);
    }

    /** @param mark see {@link SpecialTokenMarks} */
    void splitNormalized(String text, char mark, Parts parts) {
        split(text, normalized, mark, parts);
    }

    private void split(String text, Trie trie, char mark, Parts parts) {
        int done = 0;
        for (int i = 0; !trie.isEmpty() && i < text.length(); ) {
            long match = trie.match(text, i);
            if (match == Trie.NONE) {
                i++;
                continue;
            }
            AddedToken token = Objects.requireNonNull(byId.get((int) match), "the trie holds known tokens");
            int start = i;
            int end = (int) (match >>> 32);
            i = end;
            if (end == start + 1 && end < text.length() && text.charAt(end) == mark) {
                continue;
            }
            if (token.singleWord() && (wordEndsAt(text, start) || wordBeginsAt(text, end))) {
                continue;
            }
            while (token.stripLeft() && start > done && CharacterClass.isSpace(text.charAt(start - 1))) {
                start--;
            }
            while (token.stripRight() && end < text.length() && CharacterClass.isSpace(text.charAt(end))) {
                end++;
            }
            if (start > done) {
                parts.text(done, start);
            }
            parts.token(token.id());
            done = end;
        }
        if (done < text.length()) {
            parts.text(done, text.length());
        }
    }

    private static boolean wordEndsAt(String text, int i) {
        return i > 0 && CharacterClass.isWord(text.codePointBefore(i));
    }

    private static boolean wordBeginsAt(String text, int i) {
        return i < text.length() && CharacterClass.isWord(text.codePointAt(i));
    }
}
