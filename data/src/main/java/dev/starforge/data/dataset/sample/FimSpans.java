package dev.starforge.data.dataset.sample;

import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.parse.Outline;
import dev.starforge.text.fim.FillInMiddle;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.SplittableRandom;

/** Chooses the span of a file that becomes the middle of a fill-in-the-middle sample. */
final class FimSpans {
    private static final int MAX_LINES = 8;

    private FimSpans() {}

    static SampleFormat.FimSplit choose(
            DatasetConfig.FimUnit span, String code, Outline outline, SplittableRandom random) {
        return switch (span) {
            case CHARACTER -> between(code, anyCharacter(code, random), anyCharacter(code, random));
            case LINE -> lines(code, random);
            case FEW_LINES -> fewLines(code, random);
            case CURSOR -> cursor(code, random);
            case NODE -> node(code, outline, random);
        };
    }

    /** A random index that does not split a surrogate pair. */
    private static int anyCharacter(String code, SplittableRandom random) {
        int at = random.nextInt(code.length() + 1);
        boolean inside = at > 0 && at < code.length() && Character.isLowSurrogate(code.charAt(at));
        return inside ? at - 1 : at;
    }

    private static SampleFormat.FimSplit lines(String code, SplittableRandom random) {
        int one = lineBegin(code, random.nextInt(code.length() + 1));
        int two = lineBegin(code, random.nextInt(code.length() + 1));
        return between(code, one, two);
    }

    private static SampleFormat.FimSplit fewLines(String code, SplittableRandom random) {
        int from = lineBegin(code, random.nextInt(Math.max(1, code.length())));
        int to = from;
        for (int lines = 1 + random.nextInt(MAX_LINES); lines > 0 && to < code.length(); lines--) {
            int end = code.indexOf('\n', to);
            to = end < 0 ? code.length() : end + 1;
        }
        return between(code, from, to);
    }

    /**
     * What an editor asks for at a cursor. Half of the middles begin at any character; the others begin where its line or one
     * of the lines before it begins, as in prompts with token healing. Half end with the line, a quarter inside it, and a
     * quarter with a later line. The line break is part of the suffix.
     */
    private static SampleFormat.FimSplit cursor(String code, SplittableRandom random) {
        int at = anyCharacter(code, random);
        int from = at;
        if (random.nextBoolean()) {
            from = lineBegin(code, at);
            for (int lines = random.nextInt(FillInMiddle.LINES_BEFORE + 1); lines > 0 && from > 0; lines--) {
                from = lineBegin(code, from - 1);
            }
        }
        int to = lineEnd(code, at);
        switch (random.nextInt(4)) {
            case 0 -> to = at + anyCharacter(code.substring(at, to), random);
            case 1 -> {
                for (int lines = 1 + random.nextInt(MAX_LINES - 1); lines > 0 && to < code.length(); lines--) {
                    to = lineEnd(code, to + 1);
                }
            }
            default -> {}
        }
        return between(code, from, to);
    }

    /** Splits the middle of a changed chunk where a cursor may be: its first line is cut at any character, or not. */
    static SampleFormat.FimSplit atCursor(SampleFormat.FimSplit lines, SplittableRandom random) {
        String middle = lines.middle();
        int end = middle.endsWith("\n") ? middle.length() - 1 : middle.length();
        int first = Math.min(end, lineEnd(middle, 0));
        int from = random.nextBoolean() ? 0 : anyCharacter(middle.substring(0, first), random);
        return new SampleFormat.FimSplit(
                lines.prefix() + middle.substring(0, from),
                middle.substring(from, end),
                middle.substring(end) + lines.suffix());
    }

    /** A file without syntax nodes, such as one of a language without a grammar, is split at lines. */
    private static SampleFormat.FimSplit node(String code, Outline outline, SplittableRandom random) {
        List<Outline.Symbol> nodes = outline.symbols().stream()
                .filter(symbol -> symbol.kind() != Outline.SymbolKind.IMPORT)
                .toList();
        if (nodes.isEmpty()) {
            return lines(code, random);
        }
        Outline.Symbol node = nodes.get(random.nextInt(nodes.size()));
        byte[] bytes = code.getBytes(StandardCharsets.UTF_8);
        int from = new String(bytes, 0, node.from(), StandardCharsets.UTF_8).length();
        int length = new String(bytes, node.from(), node.to() - node.from(), StandardCharsets.UTF_8).length();
        return between(code, from, from + length);
    }

    /** The index of the line break at or after the index, or the end of the code. */
    private static int lineEnd(String code, int at) {
        int end = code.indexOf('\n', at);
        return end < 0 ? code.length() : end;
    }

    /** The start of the line that contains the index. */
    private static int lineBegin(String code, int at) {
        return at == 0 ? 0 : code.lastIndexOf('\n', at - 1) + 1;
    }

    private static SampleFormat.FimSplit between(String code, int one, int two) {
        int from = Math.min(one, two);
        int to = Math.max(one, two);
        return new SampleFormat.FimSplit(code.substring(0, from), code.substring(from, to), code.substring(to));
    }
}
