package dev.starforge.data.dataset;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * What makes a line worth a proper look for secrets. Most lines have nothing of it, and one pass over the bytes is much
 * cheaper than the expressions that look properly. What is not seen here is not found.
 */
final class Signs {
    private static final int LONG_RUN = 20;

    /** What looks random has so many digits at least. */
    static final int RANDOM_DIGITS = 2;

    /** A line of a private key has more characters than this, seldom without a digit. */
    private static final int KEY_LINE = 40;

    /**
     * What a line has that makes it worth looking at: an at sign, a long run of letters and digits, an assignment of a kind;
     * or only so long a run that it may be part of a private key, which the line alone does not tell.
     */
    static final int AT = 1;

    static final int LONG = 2;
    static final int TO_QUOTED = 4;
    static final int TO_BARE = 8;
    static final int TO_BARE_AFTER_COLON = 16;
    static final int PART_OF_KEY = 32;

    /** What each byte is worth: those from {@link #LETTER} on make a run, of letters, digits and signs that keys contain. */
    private static final byte[] LOOK = new byte[256];

    private static final byte AT_SIGN = 1;
    private static final byte ASSIGN = 2;
    private static final byte LETTER = 3;
    private static final byte DIGIT = 4;
    private static final byte SIGN = 5;

    static {
        for (int c = 0; c < 128; c++) {
            boolean letter = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z';
            LOOK[c] = letter ? LETTER : c >= '0' && c <= '9' ? DIGIT : "+/_-".indexOf(c) >= 0 ? SIGN : 0;
        }
        LOOK['@'] = AT_SIGN;
        LOOK['='] = ASSIGN;
        LOOK[':'] = ASSIGN;
        LOOK[','] = ASSIGN;
    }

    /** How keys of known providers begin; two letters do for a first look. */
    private static final String KEY_BEGINNINGS = "AK AS AG AI AR AN gh gi gl xo ya sk rk hf np py SG SK do ey";

    private static final int DASHES = 5;
    private static final byte[] BLOCK = "BEGIN ".getBytes(StandardCharsets.US_ASCII);

    private Signs() {}

    /** What some line of the bytes, of any encoding, has of these; mostly nothing. */
    static int of(byte[] bytes, int from, int to) {
        int signs = 0;
        int at = from;
        while (at < to) {
            switch (LOOK[bytes[at] & 0xFF]) {
                case LETTER, DIGIT, SIGN -> {
                    int begin = at;
                    while (at < to && LOOK[bytes[at] & 0xFF] >= LETTER) {
                        at++;
                    }
                    if (at - begin >= LONG_RUN) {
                        signs |= ofLongRun(bytes, begin, at);
                    }
                    continue;
                }
                case AT_SIGN -> signs |= joins(bytes, from, at, to) ? AT : 0;
                case ASSIGN -> signs |= assigns(bytes, from, at, to);
                default -> {}
            }
            at++;
        }
        return signs;
    }

    /** Whether an at sign stands between words, or in an address. */
    private static boolean joins(byte[] bytes, int from, int at, int to) {
        return at > from && at + 1 < to && (inRun(bytes[at - 1]) && inRun(bytes[at + 1]) || inAddress(bytes, from, at));
    }

    /** In which ways a sign gives something with a telling name a value, if it does. */
    private static int assigns(byte[] bytes, int from, int at, int to) {
        int ways = quoteFollows(bytes, at + 1, to) ? TO_QUOTED : 0;
        if (bytes[at] == '=') {
            ways |= TO_BARE;
        } else if (bytes[at] == ':' && blankFollows(bytes, at + 1, to)) {
            ways |= TO_BARE_AFTER_COLON;
        }
        return ways != 0 && names(bytes, from, at) ? ways : 0;
    }

    /** Whether an at sign stands in an address with a scheme. */
    private static boolean inAddress(byte[] bytes, int from, int sign) {
        for (int at = sign - 1; at >= from + 2 && bytes[at] > ' '; at--) {
            if (bytes[at] == '/' && bytes[at - 1] == '/' && bytes[at - 2] == ':') {
                return true;
            }
        }
        return false;
    }

    private static boolean blankFollows(byte[] bytes, int from, int to) {
        return from < to && isBlank(bytes[from]);
    }

    /** What the expressions take for a blank. */
    private static boolean isBlank(byte b) {
        return b == ' ' || b >= '\t' && b <= '\r';
    }

    private static boolean quoteFollows(byte[] bytes, int from, int to) {
        int at = from;
        while (at < to && (isBlank(bytes[at]) || bytes[at] == '=' || bytes[at] == '>')) {
            at++;
        }
        return at < to && (bytes[at] == '"' || bytes[at] == '\'' || bytes[at] == '`');
    }

    private static boolean inRun(byte b) {
        return LOOK[b & 0xFF] >= LETTER;
    }

    /** A run that changes between letters and digits, or begins like a known key, or is as long as a line of a key block. */
    private static int ofLongRun(byte[] bytes, int from, int to) {
        int changes = 0;
        int digits = 0;
        for (int i = from; i < to; i++) {
            byte kind = LOOK[bytes[i]];
            digits += kind == DIGIT ? 1 : 0;
            changes += i > from && kind != LOOK[bytes[i - 1]] && kind != SIGN && LOOK[bytes[i - 1]] != SIGN ? 1 : 0;
            if ((i == from || LOOK[bytes[i - 1]] == SIGN) && i + 1 < to && beginsKey(bytes[i], bytes[i + 1])) {
                return LONG;
            }
        }
        boolean lineOfKey = to - from >= KEY_LINE;
        // some keys have dots, and begin before them
        boolean goesOn = from > 0 && bytes[from - 1] == '.';
        boolean looksRandom = changes >= 3 || lineOfKey && (digits >= RANDOM_DIGITS || goesOn);
        return looksRandom ? LONG : lineOfKey ? PART_OF_KEY : 0;
    }

    private static boolean beginsKey(byte first, byte second) {
        for (int i = 0; i < KEY_BEGINNINGS.length(); i += 3) {
            if (KEY_BEGINNINGS.charAt(i) == first && KEY_BEGINNINGS.charAt(i + 1) == second) {
                return true;
            }
        }
        return false;
    }

    /** Whether the word before an assignment is called a password, key, token or secret. */
    private static boolean names(byte[] bytes, int from, int assignment) {
        int at = assignment - 1;
        while (at >= from && (isBlank(bytes[at]) || bytes[at] == '"' || bytes[at] == '\'')) {
            at--;
        }
        for (; at >= from && (inRun(bytes[at]) || bytes[at] == '.'); at--) {
            boolean named = switch (bytes[at] | 0x20) {
                case 's' -> ends(bytes, from, at, "pass");
                case 'd' -> ends(bytes, from, at, "pwd");
                case 't' -> ends(bytes, from, at, "secret") || ends(bytes, from, at, "credent");
                case 'n' -> ends(bytes, from, at, "token");
                case 'y' -> ends(bytes, from, at, "key");
                default -> false;
            };
            if (named) {
                return true;
            }
        }
        return false;
    }

    private static boolean ends(byte[] bytes, int from, int at, String word) {
        int start = at - word.length() + 1;
        if (start < from) {
            return false;
        }
        for (int i = 0; i < word.length(); i++) {
            if ((bytes[start + i] | 0x20) != word.charAt(i)) {
                return false;
            }
        }
        return true;
    }

    /** Whether a private-key block may begin in a file; such a file is redacted as a whole. */
    static boolean mayHoldBlock(byte[] content) {
        for (int end = endOfDashes(content, 0, content.length);
                end >= 0;
                end = endOfDashes(content, end, content.length)) {
            int to = end + BLOCK.length;
            if (to <= content.length && Arrays.equals(content, end, to, BLOCK, 0, BLOCK.length)) {
                return true;
            }
        }
        return false;
    }

    static boolean hasDashes(byte[] bytes, int from, int to) {
        return endOfDashes(bytes, from, to) >= 0;
    }

    /** Where the first five dashes in a row, or more, end, or -1. One byte of five must be a dash: four are passed over. */
    private static int endOfDashes(byte[] bytes, int from, int to) {
        for (int at = from + DASHES - 1; at < to; at += DASHES) {
            if (bytes[at] == '-') {
                int begin = at;
                while (begin > from && bytes[begin - 1] == '-') {
                    begin--;
                }
                int end = at + 1;
                while (end < to && bytes[end] == '-') {
                    end++;
                }
                if (end - begin >= DASHES) {
                    return end;
                }
            }
        }
        return -1;
    }
}
