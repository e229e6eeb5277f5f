package dev.starforge.cli.output;

import java.io.Console;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The terminal that a command writes to, its width, and text that fits. */
public final class Terminal {
    private static final int USUAL_WIDTH = 80;
    private static final int LEAST_WIDTH = 20;
    private static final Pattern SIZE = Pattern.compile("\\d{1,5} (\\d{1,5})\\s*");

    private Terminal() {}

    /** Returns true if input and output are a terminal. */
    public static boolean isTerminal() {
        Console console = System.console();
        return console != null && console.isTerminal();
    }

    /** The width of the terminal: {@code COLUMNS}, or what {@code stty} reports, or 80. */
    public static int width() {
        Optional<Integer> columns =
                Optional.ofNullable(System.getenv("COLUMNS")).flatMap(Terminal::number);
        return columns.or(Terminal::reported).map(Terminal::usable).orElse(USUAL_WIDTH);
    }

    /** The width of text for people: that of the terminal; unlimited in a file or pipe. */
    public static int textWidth() {
        return isTerminal() ? width() : Integer.MAX_VALUE;
    }

    private static int usable(int width) {
        return width == 0 ? USUAL_WIDTH : Math.max(LEAST_WIDTH, width);
    }

    private static Optional<Integer> number(String text) {
        return text.matches("\\d{1,5}") ? Optional.of(Integer.parseInt(text)) : Optional.empty();
    }

    private static Optional<Integer> reported() {
        File device = new File("/dev/tty");
        if (!device.exists()) {
            return Optional.empty();
        }
        try {
            Process process = new ProcessBuilder("stty", "size")
                    .redirectInput(device)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            String size = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            Matcher matcher = SIZE.matcher(size);
            return matcher.matches() ? number(matcher.group(1)) : Optional.empty();
        } catch (IOException unknown) {
            return Optional.empty();
        }
    }

    /** Cuts a line that is longer than the width. */
    public static String cut(String line, int width) {
        return line.length() <= width ? line : line.substring(0, Math.max(0, width - 1)) + "…";
    }

    /**
     * Breaks a text between words. Words that are longer than a line stay whole.
     *
     * @param label begins the first line; the others are indented by its length
     */
    public static List<String> wrap(String label, String text, int width) {
        List<String> lines = new ArrayList<>();
        StringBuilder line = new StringBuilder(label);
        boolean first = true;
        for (String word : text.split(" ")) {
            if (!first && line.length() + 1 + word.length() > width) {
                lines.add(line.toString());
                line = new StringBuilder(" ".repeat(label.length()));
                first = true;
            }
            line.append(first ? "" : " ").append(word);
            first = false;
        }
        lines.add(line.toString());
        return lines;
    }
}
