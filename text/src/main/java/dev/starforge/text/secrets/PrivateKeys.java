package dev.starforge.text.secrets;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Finds armoured private keys: {@code -----BEGIN … PRIVATE KEY-----}, lines of base64, {@code -----END …}. The lines
 * may be in comments or string literals. Only the base64 is replaced, so a program stays valid. Code that merely
 * mentions the markers has no such lines between them and does not match.
 */
public final class PrivateKeys {
    private static final byte[] BEGIN = "-----BEGIN ".getBytes(StandardCharsets.US_ASCII);
    private static final int DASHES = 5;

    private static final Pattern OPENS = Pattern.compile("-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----");
    private static final String CLOSES = "-----END ";

    /** A line of a key, with any program syntax around it. */
    private static final Pattern BODY = Pattern.compile(
            "[\\s\"'`+*#/>;,.-]{0,80}?([0-9A-Za-z+/]{1,200}={0,2}|=[0-9A-Za-z+/]{4})(?:\\\\[nr]|[\\s\"'`+,;.\\\\)-]){0,40}");

    private static final Pattern BETWEEN =
            Pattern.compile("[\\s\"'`+*#/>\\\\nr]{0,80}|[\\s\"'`+*#/>]{0,40}[A-Z][A-Za-z-]{2,30}: .{0,200}");

    /** A key on the same line as its marker. */
    private static final Pattern ON_ONE_LINE =
            Pattern.compile("-----((?:\\\\[nr]|\\s|[0-9A-Za-z+/=]){20,8000}?)(?=-----END |[\"'`]|$)");

    private PrivateKeys() {}

    /** A span of bytes within one line. */
    public record KeySpan(int from, int to, boolean first) {}

    /**
     * Returns true if a file may contain a key: a fast check for the five dashes, one of which is at a multiple of
     * five.
     */
    public static boolean mayHold(byte[] content) {
        for (int at = DASHES - 1; at < content.length; at += DASHES) {
            if (content[at] == '-') {
                int from = at;
                while (from > 0 && content[from - 1] == '-') {
                    from--;
                }
                int to = at;
                while (to < content.length && content[to] == '-') {
                    to++;
                }
                if (to - from >= DASHES && startsWith(content, to - DASHES)) {
                    return true;
                }
                at = Math.max(at, to - 1);
            }
        }
        return false;
    }

    private static boolean startsWith(byte[] content, int at) {
        for (int i = 0; i < BEGIN.length; i++) {
            if (at + i >= content.length || content[at + i] != BEGIN[i]) {
                return false;
            }
        }
        return true;
    }

    /** Finds the spans to replace, in order. */
    public static List<KeySpan> find(byte[] content) {
        if (!mayHold(content)) {
            return List.of();
        }
        String text = new String(content, StandardCharsets.ISO_8859_1);
        List<KeySpan> parts = new ArrayList<>();
        Matcher opens = OPENS.matcher(text);
        for (int at = 0; opens.find(at); ) {
            at = Math.max(opens.end(), block(text, opens, parts));
        }
        return parts;
    }

    /** Returns the end of a block, or 0 if there is none. */
    private static int block(String text, Matcher opens, List<KeySpan> parts) {
        int end = lineEnd(text, opens.end());
        Matcher same = ON_ONE_LINE.matcher(text).region(opens.end() - DASHES, end);
        if (same.lookingAt()) {
            String body = same.group(1);
            int skipped =
                    body.length() - body.replaceFirst("^(?:\\\\[nr]|\\s)+", "").length();
            int kept = body.replaceFirst("(?:\\\\[nr]|\\s)+$", "").length();
            parts.add(new KeySpan(same.start(1) + skipped, same.start(1) + kept, true));
            return same.end();
        }
        List<KeySpan> found = new ArrayList<>();
        int closes = text.indexOf(CLOSES, end);
        for (int from = end + 1; from < text.length(); from = end + 1) {
            end = lineEnd(text, from);
            if (closes >= 0 && closes < end || closes < 0 && end == text.length()) {
                break;
            }
            Matcher body = BODY.matcher(text).region(from, end);
            if (body.matches()) {
                found.add(new KeySpan(body.start(1), body.end(1), found.isEmpty()));
            } else if (!BETWEEN.matcher(text).region(from, end).matches()) {
                return 0;
            }
        }
        parts.addAll(found);
        return end;
    }

    private static int lineEnd(String text, int from) {
        int newline = text.indexOf('\n', from);
        return newline < 0 ? text.length() : newline;
    }
}
