package dev.starforge.data.dataset.parse;

import dev.starforge.data.git.LineIndex;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Cuts a large source file between its declarations, so that each part can be parsed and cached separately: of the next
 * version of a file of 20,000 lines, only the changed parts are parsed. The cuts depend on the text alone, so the result does
 * not depend on the files parsed before.
 *
 * <p>Cuts are made at blank lines outside of all brackets, and within the bodies of large namespaces, classes and functions.
 * A member of a class is parsed inside an empty class, and a statement inside an empty function, since the grammar would
 * read them differently elsewhere. Lines with {@code #if} and the like between declarations belong to no part.
 */
final class TopLevelSplitter {
    /** Smaller files and declarations are parsed whole, which takes a few milliseconds. */
    private static final int WHOLE = 8 << 10;

    private static final String MODIFIERS =
            "(?:(?:public|private|protected|static|final|abstract|sealed|non-sealed|export"
                    + "|default|declare|pub|unsafe|inline)\\s+|pub\\([^)]*\\)\\s*|template\\s*<[^{}]*>\\s*"
                    + "|@[\\w.]+(?:\\([^()]*\\))?\\s*|#\\[[^\\]]*\\]\\s*)*";
    private static final Pattern CONTAINER = Pattern.compile(
            "\\s*" + MODIFIERS
                    + "(class|interface|record|struct|namespace|module|impl|trait|mod|extern\\s*\"C\")(?![\\w$])"
                    + "[^;={}]*",
            Pattern.DOTALL);
    private static final Pattern FUNCTION = Pattern.compile(
            "\\s*(?!(?:if|for|while|switch|do|try|return|else)\\b)[^;{}]*\\)(?:[^;{}=]*[\\w)>&*\\]])?\\s*",
            Pattern.DOTALL);
    private static final Pattern COMMENT = Pattern.compile("//[^\\n]*|/\\*.*?\\*/", Pattern.DOTALL);
    private static final Pattern CONTINUATION =
            Pattern.compile("[.)}\\]:?|&=,+*<>-].*|(?:else|catch|finally|while|elif|except)\\b.*", Pattern.DOTALL);

    /**
     * A part of a file that can be parsed.
     *
     * @param prefix text parsed before it, such as the head of a class; empty at the top level
     * @param suffix text parsed after it
     * @param container the number of the part whose first declaration contains it, or -1
     * @param end the end of the declaration if this part is only its head, otherwise -1
     */
    record FilePart(int from, int to, String prefix, String suffix, int container, int end) {
        private boolean isHead() {
            return end >= 0;
        }

        /** The text to parse. */
        byte[] text(byte[] content) {
            if (prefix.isEmpty() && suffix.isEmpty()) {
                return from == 0 && to == content.length ? content : Arrays.copyOfRange(content, from, to);
            }
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            text.writeBytes(prefix.getBytes(StandardCharsets.UTF_8));
            text.write(content, from, to - from);
            text.writeBytes(suffix.getBytes(StandardCharsets.UTF_8));
            return text.toByteArray();
        }

        /**
         * Adds the declarations of this part to those of the file.
         *
         * @param outer the declaration that contains this part, or -1
         * @return the declaration that contains the parts of this one
         */
        int place(Outline outline, List<Outline.Symbol> symbols, int outer) {
            List<Outline.Symbol> found = outline.symbols();
            boolean wrapped =
                    !prefix.isEmpty() && !found.isEmpty() && found.getFirst().from() == 0;
            int first = symbols.size();
            int shift = from - prefix.length();
            for (Outline.Symbol symbol : found.subList(wrapped ? 1 : 0, found.size())) {
                int parent = symbol.parent() < 0 || wrapped && symbol.parent() == 0
                        ? outer
                        : first + symbol.parent() - (wrapped ? 1 : 0);
                int last = isHead() && symbol.parent() < 0 ? end : Math.clamp(symbol.to() + shift, from, to);
                int begin = Math.clamp(symbol.from() + shift, from, last);
                int body = Math.clamp(symbol.body() + shift, begin, last);
                symbols.add(new Outline.Symbol(symbol.kind(), symbol.name(), begin, last, body, parent));
            }
            return isHead() && symbols.size() > first ? first : outer;
        }
    }

    private final byte[] text;
    private final BracketLexer lexer;
    private final LineIndex lines;
    private final boolean python;
    private final boolean c;
    private final @Nullable String functionHead;
    private final List<FilePart> parts = new ArrayList<>();

    private TopLevelSplitter(byte[] text, BracketLexer lexer, String grammar) {
        this.text = text;
        this.lexer = lexer;
        python = grammar.equals("python");
        c = grammar.equals("c") || grammar.equals("cpp");
        // in other languages declarations anywhere in a function count, not only its statements
        functionHead = switch (grammar) {
            case "c", "cpp" -> "void x() {\n";
            case "go" -> "func x() {\n";
            case "rust" -> "fn x() {\n";
            default -> null;
        };
        lines = lexer.lines();
    }

    /** The parts in order; a single one if the file is small or its brackets do not match. */
    static List<FilePart> parts(byte[] text, String grammar) {
        FilePart whole = new FilePart(0, text.length, "", "", -1, -1);
        if (text.length <= WHOLE) {
            return List.of(whole);
        }
        BracketLexer lexer = BracketLexer.read(text, grammar);
        if (!lexer.balanced()) {
            return List.of(whole);
        }
        TopLevelSplitter cut = new TopLevelSplitter(text, lexer, grammar);
        cut.region(0, text.length, 0, "", -1);
        return cut.parts;
    }

    private void region(int from, int to, int depth, String prefix, int container) {
        int begin = from;
        for (int line = firstLineFrom(from); line < lines.count() && lines.start(line) < to; line++) {
            int start = lines.start(line);
            if (lexer.depth(line) != depth) {
                continue;
            }
            if (lexer.isCondition(line)) {
                part(begin, start, depth, prefix, container);
                while (line + 1 < lines.count() && lexer.isCondition(line + 1) && lexer.depth(line + 1) < 0) {
                    line++;
                }
                begin = Math.min(to, lines.end(line));
            } else if (start > from && isBlank(line - 1) && begins(line)) {
                part(begin, start, depth, prefix, container);
                begin = start;
            }
        }
        part(begin, to, depth, prefix, container);
    }

    private int firstLineFrom(int place) {
        int low = 0;
        int high = lines.count();
        while (low < high) {
            int middle = low + high >>> 1;
            if (lines.start(middle) < place) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    private boolean isBlank(int line) {
        for (int i = lines.start(line); i < lines.end(line); i++) {
            if (text[i] > ' ' || text[i] < 0) {
                return false;
            }
        }
        return true;
    }

    /** Returns true if a statement may begin here and does not continue the line above. */
    private boolean begins(int line) {
        String content = new String(
                text,
                lines.start(line),
                Math.min(24, lines.end(line) - lines.start(line)),
                StandardCharsets.ISO_8859_1);
        boolean indented = content.startsWith(" ") || content.startsWith("\t");
        return !content.isBlank()
                && !(python && indented)
                && !CONTINUATION.matcher(content.stripLeading()).matches();
    }

    private void part(int from, int to, int depth, String prefix, int container) {
        int begin = from;
        while (begin < to && text[begin] >= 0 && text[begin] <= ' ') {
            begin++;
        }
        if (begin == to) {
            return;
        }
        if (to - begin <= WHOLE || python || !container(begin, to, depth, container)) {
            parts.add(new FilePart(from, to, prefix, prefix.isEmpty() ? "" : "\n}", container, -1));
        }
    }

    /** Splits a large declaration if it contains others and nothing follows it. */
    private boolean container(int from, int to, int depth, int container) {
        BracketLexer.Braces body = lexer.braces().stream()
                .filter(braces -> braces.depth() == depth && braces.open() >= from && braces.close() < to)
                .findFirst()
                .orElse(null);
        if (body == null
                || !new String(text, body.close() + 1, to - body.close() - 1, StandardCharsets.UTF_8)
                        .replace(';', ' ')
                        .isBlank()) {
            return false;
        }
        String head = COMMENT.matcher(new String(text, from, body.open() - from, StandardCharsets.UTF_8))
                .replaceAll(" ");
        String inside = prefix(head);
        if (inside == null) {
            return false;
        }
        int number = parts.size();
        // an empty body of a function would be a value to initialize it with
        String rest = inside.equals(functionHead) ? ";}" : "};";
        parts.add(new FilePart(from, body.open() + 1, "", rest, container, body.close() + 1));
        region(body.open() + 1, body.close(), depth + 1, inside, number);
        return true;
    }

    /** The prefix for parts of a declaration's body; null if it cannot be split. */
    private @Nullable String prefix(String head) {
        Matcher container = CONTAINER.matcher(head);
        // in C, a struct head with parameters is a function that returns a struct
        if (container.matches() && !(c && head.indexOf('(') >= 0)) {
            return switch (container.group(1)) {
                case "class", "record" -> "class X {\n";
                case "interface", "struct", "impl", "trait" -> container.group(1) + " X {\n";
                default -> "";
            };
        }
        return FUNCTION.matcher(head).matches() ? functionHead : null;
    }
}
