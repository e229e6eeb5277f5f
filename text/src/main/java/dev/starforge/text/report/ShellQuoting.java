package dev.starforge.text.report;

import java.nio.file.Path;

/** Quotes words for a shell. */
public final class ShellQuoting {
    private ShellQuoting() {}

    /** Returns a word unchanged, or in single quotes if a shell would interpret it. */
    public static String quoted(String word) {
        return word.matches("[A-Za-z0-9_@%+=:,./-]+") ? word : "'" + word.replace("'", "'\\''") + "'";
    }

    public static String quoted(Path path) {
        String text = path.toString();
        return quoted(text.startsWith("-") ? "./" + text : text);
    }
}
