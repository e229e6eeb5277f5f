package dev.starforge.text.pretokenizer;

import java.util.Arrays;

/**
 * GPT-2's mapping of bytes to visible characters: printable Latin-1 bytes map to themselves, the others to U+0100 and
 * up in order. Byte-level vocabularies use it, so a token that is part of a character is still a string.
 */
public final class ByteAlphabet {
    private static final char[] CHARACTERS = new char[256];
    private static final short[] BYTES = new short[0x144];

    static {
        Arrays.fill(BYTES, (short) -1);
        char next = 0x100;
        for (int b = 0; b < 256; b++) {
            boolean printable = b > ' ' && b <= '~' || b >= 0xA1 && b != 0xAD;
            CHARACTERS[b] = printable ? (char) b : next++;
            BYTES[CHARACTERS[b]] = (short) b;
        }
    }

    private ByteAlphabet() {}

    public static char character(int b) {
        return CHARACTERS[b & 0xFF];
    }

    /** Returns the byte that a character encodes, or -1. */
    public static int valueOf(char character) {
        return character < BYTES.length ? BYTES[character] : -1;
    }

    /**
     * Writes the UTF-8 bytes of a span in this alphabet; {@code out} needs room for three characters per input
     * character.
     */
    public static int spell(char[] text, int from, int to, char[] out) {
        int at = 0;
        for (int i = from; i < to; i++) {
            char c = text[i];
            if (c < 0x80) {
                out[at++] = CHARACTERS[c];
            } else if (c < 0x800) {
                out[at++] = CHARACTERS[0xC0 | c >> 6];
                out[at++] = CHARACTERS[0x80 | c & 0x3F];
            } else if (Character.isHighSurrogate(c)) {
                int point = Character.toCodePoint(c, text[++i]);
                out[at++] = CHARACTERS[0xF0 | point >> 18];
                out[at++] = CHARACTERS[0x80 | point >> 12 & 0x3F];
                out[at++] = CHARACTERS[0x80 | point >> 6 & 0x3F];
                out[at++] = CHARACTERS[0x80 | point & 0x3F];
            } else {
                out[at++] = CHARACTERS[0xE0 | c >> 12];
                out[at++] = CHARACTERS[0x80 | c >> 6 & 0x3F];
                out[at++] = CHARACTERS[0x80 | c & 0x3F];
            }
        }
        return at;
    }
}
