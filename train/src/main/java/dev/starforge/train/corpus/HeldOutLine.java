package dev.starforge.train.corpus;

import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.text.tokenizer.Tokenizer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A held-out line to show a completion of. The rule is fixed, so that neither chance nor anybody chooses: the first lines, in
 * the order of the documents, that end a statement, at most one of a file and none twice. They are lines that a commit added
 * to a file. Comments and licences are skipped, and so are the descriptions of commits, which are no such documents. Without
 * fill-in-the-middle tokens there are none.
 *
 * @param path of the file
 * @param before the prompt: up to twelve lines before the line, and its first words
 * @param added the rest of the line
 * @param after up to twelve lines after it
 */
public record HeldOutLine(String path, String before, String added, String after) {
    private static final int LINES = 12;
    private static final int LEAST_BEFORE = 4;
    private static final int LEAST_LETTERS = 12;

    /** The path at the start of a chunk, unless a long prefix was cut off together with its path. */
    private static final Pattern PATH = Pattern.compile("[\\w./-]+[./][\\w-]+");

    private static final Pattern LICENCE = Pattern.compile("(?i)licen[cs]|copyright|spdx|warrant");
    private static final Pattern COMMENT = Pattern.compile("(//|/\\*|\\*|#|--|<!--|%|\"\"\"|''').*", Pattern.DOTALL);
    private static final Pattern TRAILING_COMMENT = Pattern.compile("//|/\\*|\\s#\\s|\\s--\\s");
    private static final Pattern STATEMENT = Pattern.compile(".*[=(].*[\\w;)\\]}\"']");

    /** Returns the first lines of the documents. */
    public static List<HeldOutLine> first(TokenDocuments documents, Tokenizer tokenizer, int count) {
        Optional<FimTokens> markers = FimTokens.of(tokenizer);
        List<HeldOutLine> found = new ArrayList<>();
        Set<String> seen = new HashSet<>();
        for (int d = 0; markers.isPresent() && d < documents.count() && found.size() < count; d++) {
            TokenDocument document = documents.read(d);
            markers.get()
                    .parts(document.ids())
                    .flatMap(parts -> of(parts, tokenizer))
                    .filter(line -> !seen.contains(line.path()) && !seen.contains(line.statement()))
                    .ifPresent(line -> {
                        seen.addAll(List.of(line.path(), line.statement()));
                        found.add(line);
                    });
        }
        return found;
    }

    private String statement() {
        return before.substring(before.lastIndexOf('\n') + 1).stripLeading() + added;
    }

    private static Optional<HeldOutLine> of(FimTokens.Parts parts, Tokenizer tokenizer) {
        String prefix = tokenizer.decode(parts.prefix(), true);
        String middle = tokenizer.decode(parts.middle(), true);
        String suffix = tokenizer.decode(parts.suffix(), true);
        String path = prefix.lines().findFirst().orElse("");
        if (!PATH.matcher(path).matches()) {
            return Optional.empty();
        }
        String text = prefix.substring(Math.min(prefix.length(), path.length() + 1)) + middle + suffix;
        int end = text.length() - suffix.length();
        for (int from = end - middle.length(); from < end; from = lineEnd(text, from) + 1) {
            int to = lineEnd(text, from);
            String line = text.substring(from, to);
            String before = text.substring(0, from);
            if (endsStatement(line) && !isInComment(before) && code(last(before)) >= LEAST_BEFORE) {
                int cut = cut(line);
                return Optional.of(new HeldOutLine(
                        path,
                        last(before) + line.substring(0, cut),
                        line.substring(cut),
                        String.join(
                                "\n", text.substring(to).lines().limit(LINES).toList())));
            }
        }
        return Optional.empty();
    }

    private static int lineEnd(String text, int from) {
        int end = text.indexOf('\n', from);
        return end < 0 ? text.length() : end;
    }

    /** The last lines of a text. */
    private static String last(String text) {
        List<String> lines = List.of(text.split("(?<=\n)"));
        return String.join("", lines.subList(Math.max(0, lines.size() - LINES), lines.size()));
    }

    private static long code(String text) {
        return text.lines()
                .filter(line ->
                        !line.isBlank() && !COMMENT.matcher(line.strip()).matches())
                .count();
    }

    /** Returns true for a line of code with a complete statement: brackets match, and no operator or block follows. */
    static boolean endsStatement(String line) {
        String code = line.strip();
        long letters = code.chars().filter(Character::isLetterOrDigit).count();
        return letters >= LEAST_LETTERS
                && STATEMENT.matcher(code).matches()
                && !COMMENT.matcher(code).matches()
                && !TRAILING_COMMENT.matcher(code).find()
                && !LICENCE.matcher(code).find()
                && Stream.of("()", "[]", "{}")
                        .allMatch(pair -> count(code, pair.charAt(0)) == count(code, pair.charAt(1)));
    }

    private static boolean isInComment(String before) {
        return before.lastIndexOf("/*") > before.lastIndexOf("*/")
                || before.lastIndexOf("<!--") > before.lastIndexOf("-->")
                || (before.split("\"\"\"", -1).length - 1) % 2 == 1;
    }

    private static long count(String text, char c) {
        return text.chars().filter(each -> each == c).count();
    }

    /** The offset after the first words of a line, where an editor would ask for a completion. */
    private static int cut(String line) {
        int begin = line.length() - line.stripLeading().length();
        int space = line.indexOf(' ', begin + (line.length() - begin) / 3);
        return space > 0 ? space : begin + (line.length() - begin) / 2;
    }
}
