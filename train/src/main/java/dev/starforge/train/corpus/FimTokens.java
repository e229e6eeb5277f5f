package dev.starforge.train.corpus;

import dev.starforge.data.JsonDocuments;
import dev.starforge.tensor.Philox;
import dev.starforge.text.fim.FimMarkers;
import dev.starforge.text.tokenizer.Tokenizer;
import java.util.Arrays;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Moves the middle of a document to its end, so that a model learns to fill in the middle (Bavarian et al. 2022). Two cuts are
 * drawn between tokens; an end of text stays at the end.
 *
 * @param all every fill-in-the-middle token; a document that has one is left as it is
 */
public record FimTokens(int prefix, int suffix, int middle, Set<Integer> ends, Set<Integer> all) {
    public static final int EXTRA = 3;

    /** The markers of a vocabulary, if it has a family of them. */
    public static Optional<FimTokens> of(Tokenizer tokenizer) {
        return FimMarkers.of(tokenizer)
                .map(markers -> new FimTokens(
                        tokenizer.id(markers.prefix()).orElseThrow(),
                        tokenizer.id(markers.suffix()).orElseThrow(),
                        tokenizer.id(markers.middle()).orElseThrow(),
                        JsonDocuments.endOfText(tokenizer).stream().boxed().collect(Collectors.toSet()),
                        markers.all()
                                .flatMapToInt(name -> tokenizer.id(name).stream())
                                .boxed()
                                .collect(Collectors.toSet())));
    }

    boolean applies(int[] ids) {
        return ids.length >= 8 && isFreeOf(ids);
    }

    /** Whether a document has none of the markers. */
    boolean isFreeOf(int[] ids) {
        return Arrays.stream(ids).noneMatch(all::contains);
    }

    /** The same tokens with three markers more; {@code suffixFirst} is the order suffix, prefix, middle. */
    int[] transform(int[] ids, boolean suffixFirst, long seed, int sample) {
        int length = ids.length;
        boolean ended = ends.contains(ids[length - 1]);
        int body = ended ? length - 1 : length;
        int[] words = Philox.words(sample, 0, 0x46494d, 0, (int) seed, (int) (seed >>> 32));
        int one = Integer.remainderUnsigned(words[0], body + 1);
        int two = Integer.remainderUnsigned(words[1], body + 1);
        int from = Math.min(one, two);
        int to = Math.max(one, two);
        int[] transformed = new int[length + EXTRA];
        int at = 0;
        transformed[at++] = prefix;
        if (suffixFirst) {
            transformed[at++] = suffix;
            at = copy(ids, to, body, transformed, at);
            transformed[at++] = middle;
            at = copy(ids, 0, from, transformed, at);
        } else {
            at = copy(ids, 0, from, transformed, at);
            transformed[at++] = suffix;
            at = copy(ids, to, body, transformed, at);
            transformed[at++] = middle;
        }
        at = copy(ids, from, to, transformed, at);
        if (ended) {
            transformed[at] = ids[length - 1];
        }
        return transformed;
    }

    /** A document with a gap, taken apart. */
    public record Parts(int[] prefix, int[] suffix, int[] middle) {}

    /** The parts of a document with one gap, prefix first and the middle at its end. */
    public Optional<Parts> parts(int... ids) {
        int before = indexOf(prefix, ids);
        int after = indexOf(suffix, ids);
        int gap = indexOf(middle, ids);
        boolean several = Arrays.stream(ids).filter(id -> id == prefix).count() > 1;
        if (several || before < 0 || after < before + 2 || gap < after) {
            return Optional.empty();
        }
        return Optional.of(new Parts(
                Arrays.copyOfRange(ids, before + 1, after),
                Arrays.copyOfRange(ids, after + 1, gap),
                Arrays.copyOfRange(ids, gap + 1, ids.length)));
    }

    private static int indexOf(int token, int... ids) {
        return IntStream.range(0, ids.length)
                .filter(i -> ids[i] == token)
                .findFirst()
                .orElse(-1);
    }

    private static int copy(int[] from, int begin, int end, int[] to, int at) {
        System.arraycopy(from, begin, to, at, end - begin);
        return at + end - begin;
    }
}
