package dev.starforge.text.pretokenizer;

import java.util.List;

/**
 * A stage that splits text into the words that the model encodes one by one. Stages are chained: each one passes its
 * pieces to the next, and copies a piece only if it changes its text.
 */
public sealed interface PreTokenizer {
    /** Returns this stage, connected to {@code next}. The result is for use by one thread. */
    PreTokenSink onto(PreTokenSink next, PatternBudget budget);

    /** Several stages in order; with none the text stays whole. */
    record Sequence(List<PreTokenizer> stages) implements PreTokenizer {
        @Override
        public PreTokenSink onto(PreTokenSink next, PatternBudget budget) {
            PreTokenSink chain = next;
            for (PreTokenizer stage : stages.reversed()) {
                chain = stage.onto(chain, budget);
            }
            return chain;
        }
    }

    /** Splits at the matches of a pattern. */
    record Split(Splitter splitter, MatchSpans.Behavior behavior, boolean invert) implements PreTokenizer {
        public static Split isolated(Splitter splitter) {
            return new Split(splitter, MatchSpans.Behavior.ISOLATED, false);
        }

        @Override
        public PreTokenSink onto(PreTokenSink next, PatternBudget budget) {
            if (splitter instanceof BuiltinSplitter scanner && behavior == MatchSpans.Behavior.ISOLATED) {
                return (text, from, to, first) -> {
                    for (int i = from; i < to; ) {
                        int end = scanner.next(text, i, to);
                        next.preToken(text, i, end, first && i == from);
                        i = end;
                    }
                };
            }
            return (text, from, to, first) -> {
                MatchSpans splits = new MatchSpans();
                splitter.split(text, from, to, budget, splits);
                splits.emit(behavior, invert, text, from, first, next);
            };
        }
    }

    /** Prepends a space to a piece that does not begin with one. */
    record SpaceBefore() implements PreTokenizer {
        @Override
        public PreTokenSink onto(PreTokenSink next, PatternBudget budget) {
            return (text, from, to, first) -> {
                if (text[from] == ' ') {
                    next.preToken(text, from, to, first);
                } else {
                    char[] longer = withFirst(' ', text, from, to);
                    next.preToken(longer, 0, longer.length, first);
                }
            };
        }
    }

    /**
     * Spells the UTF-8 bytes of a piece in {@link ByteAlphabet}. If it is the last stage, the model's encoder does
     * this.
     */
    record Bytes() implements PreTokenizer {
        @Override
        public PreTokenSink onto(PreTokenSink next, PatternBudget budget) {
            return (text, from, to, first) -> {
                char[] spelled = new char[3 * (to - from)];
                next.preToken(spelled, 0, ByteAlphabet.spell(text, from, to, spelled), first);
            };
        }
    }

    /** SentencePiece's metaspace: replaces spaces by a visible mark and splits before each mark. */
    record Metaspace(char mark, Prepend prepend, boolean split) implements PreTokenizer {
        /** Which pieces get a mark prepended. */
        public enum Prepend {
            ALWAYS,
            FIRST,
            NEVER
        }

        @Override
        public PreTokenSink onto(PreTokenSink next, PatternBudget budget) {
            PreTokenSink then = split ? new BeforeMarks(mark).onto(next, budget) : next;
            return (text, from, to, first) -> {
                boolean has = text[from] == ' ' || text[from] == mark;
                boolean wanted = !has && (prepend == Prepend.ALWAYS || prepend == Prepend.FIRST && first);
                char[] marked = withFirst(mark, text, from, to);
                for (int i = 1; i < marked.length; i++) {
                    if (marked[i] == ' ') {
                        marked[i] = mark;
                    }
                }
                then.preToken(marked, wanted ? 0 : 1, marked.length, first);
            };
        }
    }

    /** Splits before each mark. */
    record BeforeMarks(char mark) implements PreTokenizer {
        @Override
        public PreTokenSink onto(PreTokenSink next, PatternBudget budget) {
            return (text, from, to, first) -> {
                int start = from;
                for (int i = from + 1; i < to; i++) {
                    if (text[i] == mark) {
                        next.preToken(text, start, i, first && start == from);
                        start = i;
                    }
                }
                next.preToken(text, start, to, first && start == from);
            };
        }
    }

    /** Splits before each run of marks, which no merge of a SentencePiece-like vocabulary can cross. */
    record BeforeRuns(char mark) implements PreTokenizer {
        @Override
        public PreTokenSink onto(PreTokenSink next, PatternBudget budget) {
            return (text, from, to, first) -> {
                int start = from;
                for (int i = from + 1; i < to; i++) {
                    if (text[i] == mark && text[i - 1] != mark) {
                        next.preToken(text, start, i, first && start == from);
                        start = i;
                    }
                }
                next.preToken(text, start, to, first && start == from);
            };
        }
    }

    private static char[] withFirst(char c, char[] text, int from, int to) {
        char[] longer = new char[1 + to - from];
        longer[0] = c;
        System.arraycopy(text, from, longer, 1, to - from);
        return longer;
    }
}
