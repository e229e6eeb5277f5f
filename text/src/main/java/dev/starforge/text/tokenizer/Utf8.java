package dev.starforge.text.tokenizer;

/**
 * Decodes UTF-8 one byte at a time, with U+FFFD for each maximal invalid part. This is the practice recommended by
 * Unicode and used by Rust (Java replaces an encoded surrogate by one U+FFFD, these by three).
 */
final class Utf8 {
    static final char REPLACEMENT = '\uFFFD';

    private int missing;
    private int point;
    private int lowest;
    private int highest;

    void put(int b, StringBuilder out) {
        if (missing > 0) {
            if (b >= lowest && b <= highest) {
                point = point << 6 | b & 0x3F;
                lowest = 0x80;
                highest = 0xBF;
                if (--missing == 0) {
                    out.appendCodePoint(point);
                }
                return;
            }
            finish(out);
        }
        begin(b, out);
    }

    private void begin(int b, StringBuilder out) {
        lowest = 0x80;
        highest = 0xBF;
        if (b < 0x80) {
            out.append((char) b);
        } else if (b >= 0xC2 && b <= 0xDF) {
            missing = 1;
            point = b & 0x1F;
        } else if (b >= 0xE0 && b <= 0xEF) {
            missing = 2;
            point = b & 0x0F;
            lowest = b == 0xE0 ? 0xA0 : 0x80;
            highest = b == 0xED ? 0x9F : 0xBF;
        } else if (b >= 0xF0 && b <= 0xF4) {
            missing = 3;
            point = b & 0x07;
            lowest = b == 0xF0 ? 0x90 : 0x80;
            highest = b == 0xF4 ? 0x8F : 0xBF;
        } else {
            out.append(REPLACEMENT);
        }
    }

    /** Ends the input or a run that cannot continue; an incomplete character becomes one U+FFFD. */
    void finish(StringBuilder out) {
        if (missing > 0) {
            out.append(REPLACEMENT);
            missing = 0;
        }
    }
}
