package dev.starforge.text.template;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/** Splits a template into text and the tokens inside its brackets. */
final class TemplateLexer {
    private static final List<String> OPERATORS = List.of(
            "==", "!=", "<=", ">=", "//", "<", ">", "+", "-", "*", "/", "%", "~", "|", ".", ",", ":", "(", ")", "[",
            "]", "{", "}", "=");

    private enum Kind {
        TEXT,
        WORD,
        STRING,
        NUMBER,
        SIGN
    }

    private record Token(Kind kind, String text, int line) {}

    private final String source;
    private final int[] lineEnds;
    private final List<Token> tokens = new ArrayList<>();
    private int at;
    private int next;

    TemplateLexer(String source) {
        String whole = source.replace("\r\n", "\n");
        this.source = whole.endsWith("\n") ? whole.substring(0, whole.length() - 1) : whole;
        lineEnds = IntStream.range(0, this.source.length())
                .filter(i -> this.source.charAt(i) == '\n')
                .toArray();
        cut();
    }

    private int lineAt(int place) {
        int found = Arrays.binarySearch(lineEnds, place);
        return 1 + (found < 0 ? -found - 1 : found);
    }

    private void cut() {
        boolean trimNext = false; // the last bracket ended with a minus sign
        boolean dropLine = false; // the last bracket was a block
        while (at < source.length()) {
            int open = nextOpen(at);
            String text = source.substring(at, open);
            if (trimNext) {
                text = text.stripLeading();
            } else if (dropLine && text.startsWith("\n")) {
                text = text.substring(1);
            }
            if (open == source.length()) {
                add(Kind.TEXT, text, at);
                return;
            }
            char kind = source.charAt(open + 1);
            char sign = open + 2 < source.length() ? source.charAt(open + 2) : ' ';
            if (sign == '-') {
                text = text.stripTrailing();
            } else if (kind != '{' && sign != '+') {
                text = withoutIndent(text, open - text.length() == 0 || startsLine(open, text));
            }
            add(Kind.TEXT, text, at);
            at = open + 2 + (sign == '-' || sign == '+' && kind == '%' ? 1 : 0);
            char last = kind == '#' ? comment(open) : inside(open, kind == '{' ? "}}" : "%}");
            trimNext = last == '-';
            dropLine = kind != '{' && last != '+';
        }
    }

    /** Returns true if only text is between the bracket and the start of its line. */
    private boolean startsLine(int open, String text) {
        return text.indexOf('\n') >= 0 || open - text.length() > 0 && source.charAt(open - text.length() - 1) == '\n';
    }

    private static String withoutIndent(String text, boolean wholeLine) {
        int from = text.length();
        while (from > 0 && (text.charAt(from - 1) == ' ' || text.charAt(from - 1) == '\t')) {
            from--;
        }
        boolean indent = from > 0 ? text.charAt(from - 1) == '\n' : wholeLine;
        return indent ? text.substring(0, from) : text;
    }

    private int nextOpen(int from) {
        for (int i = from; i + 1 < source.length(); i++) {
            if (source.charAt(i) == '{' && "{%#".indexOf(source.charAt(i + 1)) >= 0) {
                return i;
            }
        }
        return source.length();
    }

    /** Skips a comment; returns the sign at its end. */
    private char comment(int open) {
        int end = source.indexOf("#}", at);
        if (end < 0) {
            throw new Value.Failure("line " + lineAt(open) + ": a comment without an end");
        }
        at = end + 2;
        return source.charAt(end - 1);
    }

    /** Tokenizes the content of a bracket; returns the sign at its end, if there is one. */
    private char inside(int open, String close) {
        add(Kind.SIGN, close.equals("}}") ? "{{" : "{%", open);
        int depth = 0;
        while (at < source.length()) {
            char c = source.charAt(at);
            if (Character.isWhitespace(c)) {
                at++;
            } else if (depth == 0 && (c == '-' || c == '+') && source.startsWith(close, at + 1)) {
                add(Kind.SIGN, close, at);
                at += 1 + close.length();
                return c;
            } else if (depth == 0 && source.startsWith(close, at)) {
                add(Kind.SIGN, close, at);
                at += close.length();
                return ' ';
            } else if (c == '\'' || c == '"') {
                string(c);
            } else if (Character.isDigit(c)) {
                int from = at;
                while (at < source.length()
                        && (Character.isDigit(source.charAt(at))
                                || source.charAt(at) == '.'
                                        && at + 1 < source.length()
                                        && Character.isDigit(source.charAt(at + 1)))) {
                    at++;
                }
                add(Kind.NUMBER, source.substring(from, at), from);
            } else if (Character.isJavaIdentifierStart(c)) {
                int from = at;
                while (at < source.length() && Character.isJavaIdentifierPart(source.charAt(at))) {
                    at++;
                }
                add(Kind.WORD, source.substring(from, at), from);
            } else {
                int place = at;
                String sign = OPERATORS.stream()
                        .filter(operator -> source.startsWith(operator, place))
                        .findFirst()
                        .orElseThrow(() -> new Value.Failure("line " + lineAt(place) + ": " + c + " is not known"));
                depth += sign.equals("{") ? 1 : sign.equals("}") ? -1 : 0;
                add(Kind.SIGN, sign, at);
                at += sign.length();
            }
        }
        throw new Value.Failure("line " + lineAt(open) + ": a bracket without an end");
    }

    private void string(char quote) {
        int from = at++;
        StringBuilder text = new StringBuilder();
        while (at < source.length() && source.charAt(at) != quote) {
            char c = source.charAt(at++);
            if (c != '\\') {
                text.append(c);
                continue;
            }
            text.append(escape(from));
        }
        if (at++ >= source.length()) {
            throw new Value.Failure("line " + lineAt(from) + ": a string without an end");
        }
        add(Kind.STRING, text.toString(), from);
    }

    /** Decodes an escape sequence; unknown ones are kept, as in Python. */
    private String escape(int from) {
        char escaped = at < source.length() ? source.charAt(at++) : ' ';
        return switch (escaped) {
            case '\n' -> ""; // line continuation
            case 'n' -> "\n";
            case 't' -> "\t";
            case 'r' -> "\r";
            case 'b' -> "\b";
            case 'f' -> "\f";
            case 'x' -> code(from, 2);
            case 'u' -> code(from, 4);
            case '\\', '\'', '"' -> String.valueOf(escaped);
            default -> "\\" + escaped;
        };
    }

    private String code(int from, int digits) {
        String hex = source.substring(at, Math.min(at + digits, source.length()));
        if (!hex.matches("[0-9a-fA-F]{" + digits + "}")) {
            throw new Value.Failure("line " + lineAt(from) + ": an escape wants " + digits + " hexadecimal digits");
        }
        at += digits;
        return String.valueOf((char) Integer.parseInt(hex, 16));
    }

    private void add(Kind kind, String text, int place) {
        if (kind != Kind.TEXT || !text.isEmpty()) {
            tokens.add(new Token(kind, text, lineAt(Math.min(place, source.length()))));
        }
    }

    boolean atEnd() {
        return next >= tokens.size();
    }

    boolean isText() {
        return !atEnd() && tokens.get(next).kind == Kind.TEXT;
    }

    boolean isString() {
        return !atEnd() && tokens.get(next).kind == Kind.STRING;
    }

    boolean isConstant() {
        return isString() || !atEnd() && tokens.get(next).kind == Kind.NUMBER;
    }

    /** Returns true at a name before an equals sign. */
    boolean isNamedArgument() {
        return next + 1 < tokens.size()
                && tokens.get(next).kind == Kind.WORD
                && tokens.get(next + 1).kind == Kind.SIGN
                && tokens.get(next + 1).text.equals("=");
    }

    int line() {
        return tokens.get(Math.min(next, tokens.size() - 1)).line;
    }

    String text() {
        return tokens.get(next++).text;
    }

    /** Returns the next token's text; empty at the end. */
    String peek() {
        return atEnd() ? "" : tokens.get(next).text;
    }

    boolean is(String word) {
        return !atEnd()
                && (tokens.get(next).kind == Kind.SIGN || tokens.get(next).kind == Kind.WORD)
                && tokens.get(next).text.equals(word);
    }

    boolean take(String word) {
        boolean there = is(word);
        next += there ? 1 : 0;
        return there;
    }

    /** Takes one of several words; returns the word, or an empty string. */
    String takeAny(String... words) {
        for (String word : words) {
            if (take(word)) {
                return word;
            }
        }
        return "";
    }

    void expect(String word) {
        if (!take(word)) {
            throw wrong(word, peek());
        }
    }

    String name() {
        if (atEnd() || tokens.get(next).kind != Kind.WORD) {
            throw wrong("a name", peek());
        }
        return tokens.get(next++).text;
    }

    Object constant() {
        if (!isConstant()) {
            throw wrong("a string or a number", peek());
        }
        Token token = tokens.get(next++);
        return token.kind == Kind.STRING ? (Object) token.text : number(token);
    }

    private static Object number(Token token) {
        try {
            return token.text.contains(".") ? (Object) Double.valueOf(token.text) : (Object) Long.valueOf(token.text);
        } catch (NumberFormatException wrong) {
            throw new Value.Failure("line " + token.line + ": " + token.text + " is no number");
        }
    }

    Value.Failure wrong(String expected, String actual) {
        String where = tokens.isEmpty() ? "line 1: " : "line " + line() + ": ";
        return new Value.Failure(where + "expected " + expected + ", got " + (actual.isEmpty() ? "the end" : actual));
    }
}
