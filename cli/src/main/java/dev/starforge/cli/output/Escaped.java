package dev.starforge.cli.output;

/** Escapes line breaks and control characters for output on one line of a terminal. */
public final class Escaped {
    private Escaped() {}

    /** Returns the text with each control character other than newline and tab replaced by U+FFFD. */
    public static String replaceControls(String text) {
        return text.replaceAll("[\\p{Cntrl}&&[^\n\t]]", "\uFFFD");
    }

    public static String of(Object shown) {
        String text = String.valueOf(shown);
        StringBuilder line = new StringBuilder();
        text.codePoints().forEach(c -> {
            switch (c) {
                case '\n' -> line.append("\\n");
                case '\r' -> line.append("\\r");
                case '\t' -> line.append("\\t");
                default -> {
                    if (Character.isISOControl(c) || Character.getType(c) == Character.FORMAT) {
                        line.append(String.format("\\u%04x", c));
                    } else {
                        line.appendCodePoint(c);
                    }
                }
            }
        });
        return line.toString();
    }
}
