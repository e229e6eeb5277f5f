package dev.starforge.data.dataset.parse;

import dev.starforge.data.git.LineIndex;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Guesses the declarations of a file without a grammar. A declaration begins at an unindented line that indented lines follow
 * and ends before the next unindented line, including a closing brace. Comments and annotations directly above belong to it.
 */
final class IndentSplitter {
    private static final Pattern IMPORT = Pattern.compile(
            "(?:import|from|use|using|require|include|#include|#import|open|extern crate|@import)\\b.*");
    private static final Pattern NAMED =
            Pattern.compile("\\b(?:(class|interface|struct|enum|trait|module|object|type|record|protocol|namespace)"
                    + "|(?:function|func|fun|def|defp|fn|sub|proc|method|procedure))\\s+([\\w$.:?!]+)");
    private static final Pattern CALLED = Pattern.compile("([\\w$]+)\\s*\\(");

    private IndentSplitter() {}

    static Outline split(byte[] content) {
        LineIndex lines = LineIndex.of(content);
        List<Outline.Symbol> symbols = new ArrayList<>();
        int above = 0;
        for (int line = 0; line < lines.count(); ) {
            String text = text(lines, line);
            if (text.isBlank()) {
                above = ++line;
                continue;
            }
            int end = line + 1;
            while (end < lines.count() && !atMargin(text(lines, end))) {
                end++;
            }
            while (end < lines.count() && text(lines, end).matches("[}\\])]+[;,)]*\\s*|end\\s*")) {
                end++;
            }
            int last = end;
            while (last > line + 1 && text(lines, last - 1).isBlank()) {
                last--;
            }
            if (IMPORT.matcher(text.strip()).matches()) {
                symbols.add(symbol(Outline.SymbolKind.IMPORT, "", lines, line, last, line));
            } else if (last > line + 1) {
                Matcher named = NAMED.matcher(text);
                Matcher called = CALLED.matcher(text);
                boolean type = named.find() && named.group(1) != null;
                String name = named.reset().find() ? named.group(2) : called.find() ? called.group(1) : "";
                Outline.SymbolKind kind = type ? Outline.SymbolKind.TYPE : Outline.SymbolKind.FUNCTION;
                symbols.add(symbol(kind, name, lines, above, last, line));
            } else if (text.startsWith("@") || text.startsWith("//") || text.startsWith("#") || text.startsWith("--")) {
                line = end;
                continue;
            }
            line = end;
            above = end;
        }
        return new Outline(List.copyOf(symbols), false);
    }

    private static Outline.Symbol symbol(
            Outline.SymbolKind kind, String name, LineIndex lines, int from, int to, int header) {
        return new Outline.Symbol(kind, name, lines.start(from), lines.start(to), lines.end(header), -1);
    }

    private static boolean atMargin(String line) {
        return !line.isBlank() && !Character.isWhitespace(line.charAt(0)) && line.charAt(0) != '{';
    }

    private static String text(LineIndex lines, int line) {
        String text = new String(
                lines.bytes(), lines.start(line), lines.end(line) - lines.start(line), StandardCharsets.UTF_8);
        return text.stripTrailing();
    }
}
