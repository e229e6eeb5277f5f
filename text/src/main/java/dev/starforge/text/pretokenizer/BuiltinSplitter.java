package dev.starforge.text.pretokenizer;

import java.util.Optional;

/**
 * Hand-written matchers for well-known pre-tokenizer expressions. They give the same result as the regular expressions
 * and are many times faster. Every character belongs to a match, so the matches cover the text.
 */
public enum BuiltinSplitter implements Splitter {
    GPT2(Splitter.GPT2) {
        @Override
        int next(char[] text, int i, int to) {
            int end = contraction(text, i, to, false);
            if (end > i) {
                return end;
            }
            int start = text[i] == ' ' && i + 1 < to ? i + 1 : i;
            byte kind = CharacterClass.at(text, start, to);
            return kind == CharacterClass.SPACE
                    ? spaces(i, spaceEnd(text, i, to), to)
                    : run(text, start, to, kind, Integer.MAX_VALUE);
        }
    },
    LLAMA3(Splitter.LLAMA3.formatted("{1,3}")) {
        @Override
        int next(char[] text, int i, int to) {
            return nextWithLines(text, i, to, 3);
        }
    },
    QWEN2(Splitter.LLAMA3.formatted("")) {
        @Override
        int next(char[] text, int i, int to) {
            return nextWithLines(text, i, to, 1);
        }
    };

    private final String expression;

    BuiltinSplitter(String expression) {
        this.expression = expression;
    }

    public String expression() {
        return expression;
    }

    static Optional<BuiltinSplitter> find(String expression) {
        for (BuiltinSplitter scanner : values()) {
            if (scanner.expression.equals(expression)) {
                return Optional.of(scanner);
            }
        }
        return Optional.empty();
    }

    /** Returns the end of the match that begins at {@code i}. */
    abstract int next(char[] text, int i, int to);

    @Override
    public void split(char[] text, int from, int to, PatternBudget budget, MatchSpans splits) {
        for (int i = from; i < to; ) {
            int end = next(text, i, to);
            splits.add(i, end, true);
            i = end;
        }
    }

    private static int nextWithLines(char[] text, int i, int to, int digits) {
        int end = contraction(text, i, to, true);
        if (end > i) {
            return end;
        }
        char c = text[i];
        byte kind = CharacterClass.at(text, i, to);
        if (kind == CharacterClass.LETTER) {
            return run(text, i, to, kind, Integer.MAX_VALUE);
        }
        if (kind == CharacterClass.NUMBER) {
            return run(text, i, to, kind, digits);
        }
        int after = i + CharacterClass.width(text, i, to);
        byte following = after < to ? CharacterClass.at(text, after, to) : CharacterClass.SPACE;
        if (following == CharacterClass.LETTER && !isLineEnd(c)) {
            return run(text, after, to, following, Integer.MAX_VALUE);
        }
        if (kind == CharacterClass.OTHER || c == ' ' && following == CharacterClass.OTHER) {
            end = run(text, kind == CharacterClass.OTHER ? i : after, to, CharacterClass.OTHER, Integer.MAX_VALUE);
            while (end < to && isLineEnd(text[end])) {
                end++;
            }
            return end;
        }
        int spaceEnd = spaceEnd(text, i, to);
        for (int last = spaceEnd; last > i; last--) {
            if (isLineEnd(text[last - 1])) {
                return last;
            }
        }
        return spaces(i, spaceEnd, to);
    }

    /** Returns the end of 's, 't, 'm, 'd, 're, 've or 'll at {@code i}, or {@code i} if there is none. */
    private static int contraction(char[] text, int i, int to, boolean anyCase) {
        if (text[i] != '\'' || i + 1 >= to) {
            return i;
        }
        char a = fold(text[i + 1], anyCase);
        if (a == 's' || a == 't' || a == 'm' || a == 'd') {
            return i + 2;
        }
        char b = i + 2 < to ? fold(text[i + 2], anyCase) : 0;
        return (a == 'r' || a == 'v') && b == 'e' || a == 'l' && b == 'l' ? i + 3 : i;
    }

    /** Case folding; the long s is the only other character that folds to a letter of a contraction. */
    private static char fold(char c, boolean anyCase) {
        if (!anyCase) {
            return c;
        }
        return c >= 'A' && c <= 'Z' ? (char) (c + 32) : c == '\u017F' ? 's' : c;
    }

    private static int run(char[] text, int i, int to, byte kind, int most) {
        for (int count = 0; i < to && count < most && CharacterClass.at(text, i, to) == kind; count++) {
            i += CharacterClass.width(text, i, to);
        }
        return i;
    }

    private static int spaceEnd(char[] text, int i, int to) {
        return run(text, i, to, CharacterClass.SPACE, Integer.MAX_VALUE);
    }

    /** A run of white space leaves its last character to the following word. */
    private static int spaces(int i, int end, int to) {
        return end == to || end == i + 1 ? end : end - 1;
    }

    private static boolean isLineEnd(char c) {
        return c == '\n' || c == '\r';
    }
}
