package dev.starforge.text.pretokenizer;

import java.util.Set;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * Translates a pattern from Oniguruma's Ruby syntax, used in tokenizer files, to java.util.regex. The syntaxes differ:
 * in Oniguruma {@code \s \d \w \b} are Unicode-aware, {@code \h} is a hexadecimal digit, {@code ^} and {@code $} always
 * match at lines and only \n ends a line, {@code (?m)} lets a dot match everything, and {@code x{1,3}+} is a repetition
 * of a repetition, not possessive. Constructs without an exact translation are rejected.
 */
final class Onig {
    private static final int MAX_PATTERN_LENGTH = 8192;
    private static final int MOST_REPEATS = 100_000;

    /** Oniguruma's word characters: Unicode's, and the fractions and superscripts of Latin-1. */
    private static final String WORD = "\\p{IsAlphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";

    /**
     * Forces Java's lookbehind to step by code points. Without a character outside the basic plane it steps by chars
     * and splits surrogate pairs.
     */
    private static final String BEHIND = Character.toString(Character.MAX_CODE_POINT) + "{0}";

    private static final Set<String> CATEGORIES = Set.of(
            "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd",
            "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp",
            "Zs");

    private final String source;
    private final StringBuilder out = new StringBuilder();
    private int at;
    private int depth;

    private Onig(String source) {
        this.source = source;
    }

    /**
     * Translates and compiles a pattern; throws an {@link IllegalArgumentException} that describes unsupported syntax.
     */
    static Pattern compile(String source) {
        if (source.length() > MAX_PATTERN_LENGTH) {
            throw new IllegalArgumentException(
                    "a pattern of " + source.length() + " characters, expected at most " + MAX_PATTERN_LENGTH);
        }
        String translated = new Onig(source).translate();
        try {
            return Pattern.compile(translated, Pattern.MULTILINE | Pattern.UNIX_LINES);
        } catch (PatternSyntaxException wrong) {
            throw new IllegalArgumentException("pattern " + source + ": " + wrong.getDescription(), wrong);
        } catch (StackOverflowError deep) {
            throw new IllegalArgumentException("a pattern that nests too deeply", deep);
        }
    }

    private String translate() {
        while (at < source.length()) {
            char c = source.charAt(at++);
            switch (c) {
                case '\\' -> escape();
                case '[' -> open();
                case ']' -> close();
                case '(' -> group();
                case '{' -> interval();
                case '}' -> out.append(depth > 0 ? "}" : "\\}");
                default -> out.append(c);
            }
        }
        return out.toString();
    }

    private void open() {
        if (peek(":")) {
            throw refused("[:");
        }
        out.append('[');
        depth++;
        if (peek("^")) {
            out.append('^');
            at++;
        }
        if (peek("]")) {
            throw refused("[]");
        }
    }

    private void close() {
        out.append(depth > 0 ? "]" : "\\]");
        depth = Math.max(0, depth - 1);
    }

    private void group() {
        out.append('(');
        if (depth > 0 || !peek("?")) {
            return;
        }
        for (String plain : new String[] {"?:", "?=", "?!", "?>", "?<=", "?<!"}) {
            if (peek(plain)) {
                out.append(plain).append(plain.startsWith("?<") ? BEHIND : "");
                at += plain.length();
                return;
            }
        }
        int start = at;
        out.append('?');
        for (at++; at < source.length(); at++) {
            char c = source.charAt(at);
            switch (c) {
                case 'i' -> out.append("iu");
                case 'm' -> out.append('s');
                case '-' -> out.append('-');
                case ':', ')' -> {
                    if (c == ')' && start > 1) {
                        throw refused("(?i) in the middle");
                    }
                    out.append(c);
                    at++;
                    return;
                }
                default -> throw refused("(?" + c);
            }
        }
    }

    private void interval() {
        int end = source.indexOf('}', at);
        String inner = end < 0 ? "" : source.substring(at, end);
        if (depth > 0) {
            out.append('{');
            return;
        }
        if (!inner.matches("\\d{1,6}|\\d{1,6},|\\d{0,6},\\d{1,6}")) {
            out.append("\\{");
            return;
        }
        for (String count : inner.split(",")) {
            if (!count.isEmpty() && Integer.parseInt(count) > MOST_REPEATS) {
                throw refused("{" + inner + "}");
            }
        }
        at = end + 1;
        if (peek("+") || peek("?") && !inner.contains(",")) {
            throw refused("{" + inner + "}" + source.charAt(at));
        }
        out.append('{').append(inner.startsWith(",") ? "0" : "").append(inner).append('}');
    }

    private void escape() {
        if (at == source.length()) {
            throw refused("\\ at the end");
        }
        char c = source.charAt(at++);
        boolean inside = depth > 0;
        switch (c) {
            case 'p', 'P' -> property(c == 'P');
            case 'd' -> out.append("\\p{Nd}");
            case 'D' -> out.append("\\P{Nd}");
            case 's' -> out.append("\\p{IsWhite_Space}");
            case 'S' -> out.append("\\P{IsWhite_Space}");
            case 'w' -> out.append('[').append(WORD).append(']');
            case 'W' -> out.append("[^").append(WORD).append(']');
            case 'h' -> out.append("[0-9A-Fa-f]");
            case 'H' -> out.append("[^0-9A-Fa-f]");
            case 'n', 'r', 't', 'f', 'a', 'e' -> out.append('\\').append(c);
            case 'v' -> out.append("\\x0B");
            case 'x' -> hexadecimal();
            case 'u' -> number(4);
            case 'B' ->
                out.append("(?:")
                        .append(boundary("=", "="))
                        .append('|')
                        .append(boundary("!", "!"))
                        .append(')');
            case 'b' -> {
                if (inside) {
                    out.append("\\x08");
                } else {
                    out.append("(?:")
                            .append(boundary("!", "="))
                            .append('|')
                            .append(boundary("=", "!"))
                            .append(')');
                }
            }
            case 'A', 'z', 'Z' -> out.append('\\').append(c);
            default -> {
                if (c < 0x80 && Character.isLetterOrDigit(c)) {
                    throw refused("\\" + c);
                }
                out.append(c < 0x80 ? "\\" : "").append(c);
            }
        }
    }

    private static String boundary(String behind, String ahead) {
        return "(?<" + behind + BEHIND + "[" + WORD + "])(?" + ahead + "[" + WORD + "])";
    }

    private void property(boolean negated) {
        int end = source.indexOf('}', at);
        if (!peek("{") || end < 0) {
            throw refused("\\p without {name}");
        }
        boolean inverted = source.charAt(at + 1) == '^';
        String name = source.substring(at + (inverted ? 2 : 1), end);
        at = end + 1;
        out.append(negated != inverted ? "\\P{" : "\\p{").append(javaName(name)).append('}');
    }

    private String javaName(String name) {
        if (CATEGORIES.contains(name)) {
            return name;
        }
        try {
            return "Is" + Character.UnicodeScript.forName(name);
        } catch (IllegalArgumentException unknown) {
            throw refused("\\p{" + name + "}");
        }
    }

    private void hexadecimal() {
        if (peek("{")) {
            at++;
            number(Math.max(0, source.indexOf('}', at) - at));
            at++;
        } else {
            number(2);
        }
    }

    private void number(int digits) {
        String hex = source.substring(at, Math.min(at + digits, source.length()));
        if (hex.length() != digits || !hex.matches("[0-9A-Fa-f]{2,6}")) {
            throw refused("\\x or \\u with " + hex);
        }
        int point = Integer.parseInt(hex, 16);
        if (point > Character.MAX_CODE_POINT
                || point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE
                || digits == 2 && point > 0x7F) {
            throw refused("\\x with " + hex);
        }
        out.append("\\x{").append(hex).append('}');
        at += digits;
    }

    private boolean peek(String next) {
        return source.startsWith(next, at);
    }

    private IllegalArgumentException refused(String what) {
        return new IllegalArgumentException("pattern " + source + ": " + what + " is not supported");
    }
}
