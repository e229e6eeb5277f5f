package dev.starforge.data.dataset;

import dev.starforge.data.git.Bytes;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.stream.Stream;

/**
 * What makes a line worth a proper look for secrets. Most lines have nothing of it, and one pass over the bytes is much
 * cheaper than the expressions that look properly. What is not seen here is not found.
 */
final class Signs {
    private static final int LONG_RUN = 20;

    /** What looks random has so many digits at least, and letters of either kind. */
    static final int RANDOM_DIGITS = 2;

    static final int RANDOM_LETTERS = 2;

    /** A line of a private key is so long, or changes so often between letters and digits. */
    private static final int KEY_LINE = 40;

    private static final int KEY_CHANGES = 3;

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

    /** What each byte is: letters, digits and signs that keys contain make runs. */
    private static final byte[] LOOK = new byte[256];

    private static final byte LETTER = 1;
    private static final byte DIGIT = 2;
    private static final byte SIGN = 3;

    static {
        for (int c = 0; c < 128; c++) {
            boolean letter = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z';
            LOOK[c] = letter ? LETTER : c >= '0' && c <= '9' ? DIGIT : "+/_-".indexOf(c) >= 0 ? SIGN : 0;
        }
    }

    /** How keys of known providers begin. */
    private static final byte[][] KEY_BEGINNINGS =
            words("AKIA ASIA AGPA AIDA AROA ANPA ghp_ gho_ ghu_ ghs_ ghr_ github_ glpat- "
                    + "xox AIza sk_ rk_ sk- hf_ npm_ pypi- SK dop_ eyJ");

    /** One that a dot follows, which ends a run. */
    private static final byte[] BEGINNING_WITH_DOT = word("ya29.");

    /** What makes a key a secret, where the name does not say so in another way. */
    private static final byte[][] KINDS_OF_KEY = words("api access auth private signing encryption");

    private static final byte[] PASS = word("pass");
    private static final byte[] PWD = word("pwd");
    private static final byte[] SECRET = word("secret");
    private static final byte[] CREDENTIAL = word("credential");
    private static final byte[] TOKEN = word("token");
    private static final byte[] KEY = word("key");

    /** A value has so many characters at least, in quotation marks or without. */
    private static final int QUOTED_VALUE = 6;

    private static final int BARE_VALUE = 8;

    private static final int DASHES = 5;
    private static final byte[] BLOCK = word("BEGIN ");

    private Signs() {}

    private static byte[] word(String word) {
        return word.getBytes(StandardCharsets.US_ASCII);
    }

    private static byte[][] words(String words) {
        return Stream.of(words.split(" ")).map(Signs::word).toArray(byte[][]::new);
    }

    /** What some line of the bytes, of any encoding, has of these; mostly nothing. */
    static int of(byte[] bytes, int from, int to) {
        int signs = ofLongRuns(bytes, from, to);
        int at = from;
        for (; at + 8 <= to; at += 8) {
            long eight = Bytes.eight(bytes, at);
            long marked = Bytes.equal(eight, '@')
                    | Bytes.equal(eight, '=')
                    | Bytes.equal(eight, ':')
                    | Bytes.equal(eight, ',');
            for (; marked != 0; marked &= marked - 1) {
                signs |= ofSign(bytes, from, at + Bytes.first(marked), to);
            }
        }
        for (; at < to; at++) {
            signs |= ofSign(bytes, from, at, to);
        }
        return signs;
    }

    private static int ofSign(byte[] bytes, int from, int at, int to) {
        return switch (bytes[at]) {
            case '@' -> joins(bytes, from, at, to) ? AT : 0;
            case '=', ':', ',' -> assigns(bytes, from, at, to);
            default -> 0;
        };
    }

    /** One byte of so many as a long run has is in it: the others are passed over. */
    private static int ofLongRuns(byte[] bytes, int from, int to) {
        int signs = 0;
        int end = from;
        for (int at = from + LONG_RUN - 1; at < to; at += LONG_RUN) {
            if (at < end || !inRun(bytes[at])) {
                continue;
            }
            int begin = at;
            while (begin > end && inRun(bytes[begin - 1])) {
                begin--;
            }
            end = at + 1;
            while (end < to && inRun(bytes[end])) {
                end++;
            }
            if (end - begin >= LONG_RUN) {
                signs |= ofLongRun(bytes, begin, end);
            }
        }
        return signs;
    }

    /** Whether an at sign stands between words, or in an address. */
    private static boolean joins(byte[] bytes, int from, int at, int to) {
        if (at == from) {
            return false;
        }
        byte before = bytes[at - 1];
        boolean named = inRun(before) || before == '.' || before == '%';
        return named && at + 1 < to && inRun(bytes[at + 1]) || inAddress(bytes, from, at);
    }

    /** In which ways a sign gives something with a telling name a value that may be secret, if it does. */
    private static int assigns(byte[] bytes, int from, int at, int to) {
        int value = pastBlanks(bytes, at + 1, to);
        int ways = 0;
        if (quotedFollows(bytes, at + 1, to)) {
            ways = TO_QUOTED;
        } else if (bytes[at] != ',' && bareFollows(bytes, value, to)) {
            ways = bytes[at] == '=' ? TO_BARE : value > at + 1 ? TO_BARE_AFTER_COLON : 0;
        }
        return ways != 0 && names(bytes, from, at) ? ways : 0;
    }

    /** Whether an at sign stands in an address with a scheme. */
    private static boolean inAddress(byte[] bytes, int from, int sign) {
        // of an at sign before this one the same was asked already
        for (int at = sign - 1; at >= from + 2 && !isBlank(bytes[at]) && bytes[at] != '@'; at--) {
            if (bytes[at] == '/' && bytes[at - 1] == '/' && bytes[at - 2] == ':') {
                return true;
            }
        }
        return false;
    }

    private static int pastBlanks(byte[] bytes, int from, int to) {
        int at = from;
        while (at < to && isBlank(bytes[at])) {
            at++;
        }
        return at;
    }

    /** What the expressions take for a blank. */
    private static boolean isBlank(byte b) {
        return b == ' ' || b >= '\t' && b <= '\r';
    }

    private static boolean isQuote(byte b) {
        return b == '"' || b == '\'' || b == '`';
    }

    /** Whether a word in quotation marks follows, after the rest of what assigns. */
    private static boolean quotedFollows(byte[] bytes, int from, int to) {
        int at = from;
        at += at < to && bytes[at] == '=' ? 1 : 0;
        at += at < to && bytes[at] == '>' ? 1 : 0;
        at = pastBlanks(bytes, at, to);
        if (at == to || !isQuote(bytes[at])) {
            return false;
        }
        int begin = ++at;
        while (at < to && !isQuote(bytes[at]) && !isBlank(bytes[at])) {
            at++;
        }
        return at < to && at - begin >= QUOTED_VALUE && isQuote(bytes[at]);
    }

    private static boolean bareFollows(byte[] bytes, int from, int to) {
        if (to - from < BARE_VALUE) {
            return false;
        }
        for (int at = from; at < from + BARE_VALUE; at++) {
            byte b = bytes[at];
            if (isBlank(b) || isQuote(b) || b == '<' || b == '(') {
                return false;
            }
        }
        return true;
    }

    private static boolean inRun(byte b) {
        return LOOK[b & 0xFF] != 0;
    }

    /** A run that looks random, or begins like a known key, or is as long as a line of a key block. */
    private static int ofLongRun(byte[] bytes, int from, int to) {
        int changes = 0;
        int digits = 0;
        int upper = 0;
        int lower = 0;
        byte before = SIGN;
        for (int i = from; i < to; i++) {
            byte b = bytes[i];
            byte kind = LOOK[b];
            digits += kind == DIGIT ? 1 : 0;
            upper += kind == LETTER && b <= 'Z' ? 1 : 0;
            lower += kind == LETTER && b > 'Z' ? 1 : 0;
            changes += kind != before && kind != SIGN && before != SIGN ? 1 : 0;
            if (before == SIGN && kind == LETTER && beginsKey(bytes, i)) {
                return LONG;
            }
            before = kind;
        }
        if (ends(bytes, 0, from - 1, BEGINNING_WITH_DOT)) {
            return LONG;
        }
        if (changes < KEY_CHANGES && to - from < KEY_LINE) {
            return 0;
        }
        // some keys have dots, and begin before them
        boolean goesOn = from > 0 && bytes[from - 1] == '.';
        boolean varied = digits >= RANDOM_DIGITS && upper >= RANDOM_LETTERS && lower >= RANDOM_LETTERS;
        return goesOn || varied ? LONG : PART_OF_KEY;
    }

    private static boolean beginsKey(byte[] bytes, int at) {
        for (byte[] beginning : KEY_BEGINNINGS) {
            int end = at + beginning.length;
            if (end <= bytes.length && Arrays.equals(bytes, at, end, beginning, 0, beginning.length)) {
                return true;
            }
        }
        return false;
    }

    /** Whether the word before an assignment is called a password, token or secret, or a key of a kind that is secret. */
    private static boolean names(byte[] bytes, int from, int assignment) {
        int at = assignment - 1;
        while (at >= from && (isBlank(bytes[at]) || isQuote(bytes[at]))) {
            at--;
        }
        for (; at >= from && (inRun(bytes[at]) || bytes[at] == '.'); at--) {
            boolean named = switch (bytes[at] | 0x20) {
                case 's' -> ends(bytes, from, at, PASS);
                case 'd' -> ends(bytes, from, at, PWD);
                case 't' -> ends(bytes, from, at, SECRET);
                case 'l' -> ends(bytes, from, at, CREDENTIAL);
                case 'n' -> ends(bytes, from, at, TOKEN);
                case 'y' -> ends(bytes, from, at, KEY) && namesKind(bytes, from, at - KEY.length);
                default -> false;
            };
            if (named) {
                return true;
            }
        }
        return false;
    }

    private static boolean namesKind(byte[] bytes, int from, int end) {
        int at = end >= from && (bytes[end] == '_' || bytes[end] == '-') ? end - 1 : end;
        for (byte[] kind : KINDS_OF_KEY) {
            if (ends(bytes, from, at, kind)) {
                return true;
            }
        }
        return false;
    }

    private static boolean ends(byte[] bytes, int from, int at, byte[] word) {
        int start = at - word.length + 1;
        if (start < from) {
            return false;
        }
        for (int i = 0; i < word.length; i++) {
            if ((bytes[start + i] | 0x20) != word[i]) {
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
