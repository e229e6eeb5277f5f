package dev.starforge.text.pretokenizer;

/** The Unicode character classes that pre-tokenizers use, with one table lookup for the basic plane. */
public final class CharacterClass {
    static final byte OTHER = 0;
    static final byte LETTER = 1;
    static final byte NUMBER = 2;
    static final byte SPACE = 3;

    private static final byte[] BASIC_PLANE = new byte[1 << 16];

    static {
        for (int c = 0; c < BASIC_PLANE.length; c++) {
            BASIC_PLANE[c] = isSpace(c) ? SPACE : byCategory(c);
        }
    }

    private CharacterClass() {}

    /** Returns the class of the character at {@code i}; a surrogate pair must end before {@code to}. */
    static byte at(char[] text, int i, int to) {
        char c = text[i];
        return Character.isHighSurrogate(c) && i + 1 < to
                ? byCategory(Character.toCodePoint(c, text[i + 1]))
                : BASIC_PLANE[c];
    }

    /** Number of chars of the character at {@code i}. */
    public static int width(char[] text, int i, int to) {
        return Character.isHighSurrogate(text[i]) && i + 1 < to ? 2 : 1;
    }

    /** Returns true if the character has the property White_Space. */
    public static boolean isSpace(int c) {
        return c == ' '
                || c >= 0x09 && c <= 0x0D
                || c == 0x85
                || c == 0xA0
                || c == 0x1680
                || c >= 0x2000 && c <= 0x200A
                || c == 0x2028
                || c == 0x2029
                || c == 0x202F
                || c == 0x205F
                || c == 0x3000;
    }

    static boolean isNumber(int c) {
        return byCategory(c) == NUMBER;
    }

    static boolean isMark(int c) {
        int type = Character.getType(c);
        return type == Character.NON_SPACING_MARK
                || type == Character.ENCLOSING_MARK
                || type == Character.COMBINING_SPACING_MARK;
    }

    static boolean isPunctuation(int c) {
        return c < 0x80
                ? c > ' ' && c < 0x7F && !Character.isLetterOrDigit(c)
                : switch (Character.getType(c)) {
                    case Character.CONNECTOR_PUNCTUATION,
                            Character.DASH_PUNCTUATION,
                            Character.START_PUNCTUATION,
                            Character.END_PUNCTUATION,
                            Character.INITIAL_QUOTE_PUNCTUATION,
                            Character.FINAL_QUOTE_PUNCTUATION,
                            Character.OTHER_PUNCTUATION -> true;
                    default -> false;
                };
    }

    /** A word character as Unicode's regular expressions define it. */
    public static boolean isWord(int c) {
        int type = Character.getType(c);
        return Character.isAlphabetic(c)
                || isMark(c)
                || type == Character.DECIMAL_DIGIT_NUMBER
                || type == Character.CONNECTOR_PUNCTUATION
                || c == 0x200C
                || c == 0x200D;
    }

    private static byte byCategory(int c) {
        return switch (Character.getType(c)) {
            case Character.UPPERCASE_LETTER,
                    Character.LOWERCASE_LETTER,
                    Character.TITLECASE_LETTER,
                    Character.MODIFIER_LETTER,
                    Character.OTHER_LETTER -> LETTER;
            case Character.DECIMAL_DIGIT_NUMBER, Character.LETTER_NUMBER, Character.OTHER_NUMBER -> NUMBER;
            default -> OTHER;
        };
    }
}
