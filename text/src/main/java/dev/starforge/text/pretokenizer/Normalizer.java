package dev.starforge.text.pretokenizer;

import java.text.Normalizer.Form;
import java.util.List;
import java.util.function.IntPredicate;

/** Rewrites text before it is split into words. */
public sealed interface Normalizer {
    String apply(String text, PatternBudget budget);

    record Sequence(List<Normalizer> steps) implements Normalizer {
        @Override
        public String apply(String text, PatternBudget budget) {
            String result = text;
            for (Normalizer step : steps) {
                result = step.apply(result, budget);
            }
            return result;
        }
    }

    /** A Unicode normal form. Text with only characters below {@code plain} is already normalized. */
    record Unicode(Form form, int plain) implements Normalizer {
        public static Unicode of(Form form) {
            return new Unicode(
                    form,
                    switch (form) {
                        case NFC -> 0x300;
                        case NFD -> 0xC0;
                        case NFKC, NFKD -> 0xA0;
                    });
        }

        @Override
        public String apply(String text, PatternBudget budget) {
            for (int i = 0; i < text.length(); i++) {
                if (text.charAt(i) >= plain) {
                    return java.text.Normalizer.normalize(text, form);
                }
            }
            return text;
        }
    }

    /** Lower-cases each character independently, without rules for languages or final sigma. */
    record Lowercase() implements Normalizer {
        @Override
        public String apply(String text, PatternBudget budget) {
            StringBuilder out = new StringBuilder(text.length());
            text.codePoints().forEach(c -> {
                out.appendCodePoint(Character.toLowerCase(c));
                if (c == '\u0130') {
                    out.append('\u0307');
                }
            });
            return out.toString();
        }
    }

    record Prepend(String prefix) implements Normalizer {
        @Override
        public String apply(String text, PatternBudget budget) {
            budget.write(prefix.length());
            return text.isEmpty() ? text : prefix.concat(text);
        }
    }

    record Replace(Replacement replacement) implements Normalizer {
        @Override
        public String apply(String text, PatternBudget budget) {
            return replacement.apply(text, budget);
        }
    }

    record Strip(boolean left, boolean right) implements Normalizer {
        @Override
        public String apply(String text, PatternBudget budget) {
            int from = 0;
            int to = text.length();
            while (left && from < to && CharacterClass.isSpace(text.charAt(from))) {
                from++;
            }
            while (right && to > from && CharacterClass.isSpace(text.charAt(to - 1))) {
                to--;
            }
            return text.substring(from, to);
        }
    }

    record StripAccents() implements Normalizer {
        @Override
        public String apply(String text, PatternBudget budget) {
            StringBuilder out = new StringBuilder(text.length());
            IntPredicate mark = CharacterClass::isMark;
            text.codePoints().filter(mark.negate()).forEach(out::appendCodePoint);
            return out.toString();
        }
    }
}
