package dev.starforge.text.tokenizer;

import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Marks special tokens in text from outside, so that {@link Tokenizer#encodeMarked} encodes them as ordinary text. A mark is a character
 * after the first character of a special token. It does not matter to a chat template, which may trim, join or compare the text, and
 * may write special tokens of its own around it. Added tokens that are not special, such as {@code <think>}, are not marked.
 */
public final class SpecialTokenMarks {
    /** Noncharacters, which Unicode reserves for internal use (U+FDD0 to U+FDEF). */
    private static final char FIRST_MARK = '\uFDD0';

    private static final char LAST_MARK = '\uFDEF';

    private final Trie tokens = new Trie();
    private final Set<String> beginnings = new HashSet<>();
    private int longest;

    SpecialTokenMarks(List<AddedToken> added) {
        for (AddedToken token : added) {
            if (token.special() && !token.content().isEmpty()) {
                tokens.add(token.content(), token.id());
                longest = Math.max(longest, token.content().length());
                for (int i = 1; i < token.content().length(); i++) {
                    beginnings.add(token.content().substring(0, i));
                }
            }
        }
    }

    /** A text contains all characters that can be marks. */
    public static final class NoUnusedMarkException extends IllegalArgumentException {
        private static final long serialVersionUID = 1;

        NoUnusedMarkException() {
            super("text: expected at most " + (LAST_MARK - FIRST_MARK)
                    + " different noncharacters from U+FDD0 to U+FDEF");
        }
    }

    /**
     * A mark that none of the texts contains.
     *
     * @throws NoUnusedMarkException if there is none
     */
    public static char unused(Collection<String> texts) {
        for (char mark = FIRST_MARK; mark <= LAST_MARK; mark++) {
            char candidate = mark;
            if (texts.stream().noneMatch(text -> text.indexOf(candidate) >= 0)) {
                return mark;
            }
        }
        throw new NoUnusedMarkException();
    }

    /** Marks every special token, and at the end the beginning of one, which could be completed by what follows. */
    public String mark(String text, char mark) {
        if (tokens.isEmpty()) {
            return text;
        }
        int trimmed = text.stripTrailing().length();
        StringBuilder marked = new StringBuilder();
        int done = 0;
        for (int i = 0; i < text.length(); i++) {
            if (tokens.match(text, i) != Trie.NONE || beginsToken(text, i, trimmed)) {
                marked.append(text, done, i + 1).append(mark);
                done = i + 1;
            }
        }
        return done == 0 ? text : marked.append(text, done, text.length()).toString();
    }

    private boolean beginsToken(String text, int from, int trimmed) {
        return from > text.length() - longest && beginnings.contains(text.substring(from))
                || from < trimmed && from > trimmed - longest && beginnings.contains(text.substring(from, trimmed));
    }

    /** Removes marks; returns the length of what remains. */
    static int remove(char[] text, char mark) {
        int length = 0;
        for (char c : text) {
            if (c != mark) {
                text[length++] = c;
            }
        }
        return length;
    }
}
