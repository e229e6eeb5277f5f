package dev.starforge.text.report;

import java.nio.file.Path;

/** Commands that can be pasted into a shell. */
public final class ShellQuoting {
    private ShellQuoting() {}

    /** A word as it is, or in single quotes where a shell would take it apart. */
    public static String quoted(String word) {
        return word.matches("[A-Za-z0-9_@%+=:,./-]+") ? word : "'" + word.replace("'", "'\\''") + "'";
    }

    public static String quoted(Path path) {
        String text = path.toString();
        return quoted(text.startsWith("-") ? "./" + text : text);
    }
}
