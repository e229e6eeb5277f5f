package dev.starforge.text.pretokenizer;

import java.util.Arrays;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Finds the matches that a pre-tokenizer splits at: characters of a class, a fixed string, a regular expression, or a
 * well-known expression implemented by {@link BuiltinSplitter}.
 */
public sealed interface Splitter
        permits BuiltinSplitter, Splitter.Each, Splitter.Literal, Splitter.Regex, Splitter.Words {
    /** The expression of GPT-2, the default of byte-level pre-tokenizers. */
    String GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

    /** The expression of Llama 3 with at most {@code %s} digits in a number. */
    String LLAMA3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}%s| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
            + "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

    /** Adds the spans of {@code from..to} to {@code splits}. */
    void split(char[] text, int from, int to, PatternBudget budget, MatchSpans splits);

    /** Returns a splitter for an expression, built in if available. */
    static Splitter of(String expression) {
        if (expression.equals("\\p{N}")) {
            return Each.NUMBER;
        }
        return BuiltinSplitter.find(expression)
                .map(Splitter.class::cast)
                .orElseGet(() -> new Regex(Onig.compile(expression)));
    }

    /** Matches each character of a class. */
    enum Each implements Splitter {
        NUMBER,
        PUNCTUATION,
        SPACE;

        private boolean has(int c) {
            return switch (this) {
                case NUMBER -> CharacterClass.isNumber(c);
                case PUNCTUATION -> CharacterClass.isPunctuation(c);
                case SPACE -> CharacterClass.isSpace(c);
            };
        }

        @Override
        public void split(char[] text, int from, int to, PatternBudget budget, MatchSpans splits) {
            int last = from;
            for (int i = from; i < to; ) {
                int width = CharacterClass.width(text, i, to);
                if (has(Character.codePointAt(text, i, to))) {
                    if (i > last) {
                        splits.add(last, i, false);
                    }
                    splits.add(i, i + width, true);
                    last = i + width;
                }
                i += width;
            }
            if (last < to) {
                splits.add(last, to, false);
            }
        }
    }

    /** Matches a fixed non-empty string. */
    record Literal(char[] string) implements Splitter {
        @Override
        public void split(char[] text, int from, int to, PatternBudget budget, MatchSpans splits) {
            int last = from;
            for (int i = from; i + string.length <= to; ) {
                if (Arrays.equals(text, i, i + string.length, string, 0, string.length)) {
                    if (i > last) {
                        splits.add(last, i, false);
                    }
                    i += string.length;
                    splits.add(i - string.length, i, true);
                    last = i;
                } else {
                    i++;
                }
            }
            if (last < to) {
                splits.add(last, to, false);
            }
        }
    }

    /** Matches a regular expression within the piece. Ignores an empty match directly after another match. */
    record Regex(Pattern pattern) implements Splitter {
        @Override
        public void split(char[] text, int from, int to, PatternBudget budget, MatchSpans splits) {
            Matcher matcher = pattern.matcher(new Metered(text, from, to, budget));
            int last = from;
            try {
                for (int at = from; at <= to && matcher.find(at - from); ) {
                    int start = from + matcher.start();
                    int end = from + matcher.end();
                    boolean empty = start == end;
                    at = empty && end < to ? end + CharacterClass.width(text, end, to) : empty ? end + 1 : end;
                    if (empty && start == last && start > from) {
                        continue;
                    }
                    if (start > last) {
                        splits.add(last, start, false);
                    }
                    splits.add(start, end, true);
                    last = end;
                }
            } catch (StackOverflowError deep) {
                throw budget.tooDeep(deep);
            }
            if (last < to) {
                splits.add(last, to, false);
            }
        }
    }

    /** Matches neither Unicode words nor the gaps between them, but splits at their boundaries. */
    record Words() implements Splitter {
        @Override
        public void split(char[] text, int from, int to, PatternBudget budget, MatchSpans splits) {
            for (int i = from; i < to; ) {
                int kind = kind(Character.codePointAt(text, i, to));
                int end = i;
                while (end < to && kind(Character.codePointAt(text, end, to)) == kind) {
                    end += CharacterClass.width(text, end, to);
                }
                splits.add(i, end, kind == 0);
                i = end;
            }
        }

        private static int kind(int c) {
            return CharacterClass.isSpace(c) ? 0 : CharacterClass.isWord(c) ? 1 : 2;
        }
    }

    /** A view of a piece that counts the characters read. */
    record Metered(char[] text, int from, int to, PatternBudget budget) implements CharSequence {
        @Override
        public int length() {
            return to - from;
        }

        @Override
        public char charAt(int i) {
            budget.read();
            return text[from + i];
        }

        @Override
        public CharSequence subSequence(int start, int end) {
            return new Metered(text, from + start, from + end, budget);
        }

        @Override
        public String toString() {
            return new String(text, from, to - from);
        }
    }
}
