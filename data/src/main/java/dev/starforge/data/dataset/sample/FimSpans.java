package dev.starforge.data.dataset.sample;

import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.parse.Outline;
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
