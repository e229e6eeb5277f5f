package dev.starforge.data.git;

import java.nio.charset.StandardCharsets;

/** Converts paths of git trees to text. */
public final class GitPath {
    private GitPath() {}

    /** One character per byte, for comparisons. */
    static String raw(byte[] path) {
        return new String(path, StandardCharsets.ISO_8859_1);
    }

    /** The path as text; a path that is not UTF-8 is quoted as in git, including quotation marks. */
    public static String text(byte[] path) {
        return BlobReader.isUtf8(path) ? new String(path, StandardCharsets.UTF_8) : quoted("", path);
    }

    /** A {@link #raw} path in a patch: quoted if it has quotation marks, backslashes or control characters. */
    static String inPatch(String prefix, String raw) {
        byte[] path = raw.getBytes(StandardCharsets.ISO_8859_1);
        for (byte b : path) {
            if (b < ' ' || b == '"' || b == '\\' || b == 127) {
                return quoted(prefix, path);
            }
        }
        return prefix + raw;
    }

    private static String quoted(String prefix, byte[] path) {
        StringBuilder text = new StringBuilder("\"").append(prefix);
        for (byte b : path) {
            int named = "\u0007\b\t\n\u000B\f\r".indexOf(b);
            if (b == '"' || b == '\\') {
                text.append('\\').append((char) b);
            } else if (named >= 0) {
                text.append('\\').append("abtnvfr".charAt(named));
            } else if (b < ' ' || b == 127) {
                text.append('\\');
                for (int shift = 6; shift >= 0; shift -= 3) {
                    text.append((char) ('0' + ((b & 0xff) >> shift & 7)));
                }
            } else {
                text.append((char) b);
            }
        }
        return text.append('"').toString();
    }
}
