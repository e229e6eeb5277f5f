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
 * Moves the middle of a document to its end for fill-in-the-middle training (Bavarian et al. 2022). The two cuts are
 * between tokens; an end-of-text token stays at the end.
 *
 * @param all all fill-in-the-middle tokens; documents that contain one are not transformed
 */
public record FimTokens(int prefix, int suffix, int middle, Set<Integer> ends, Set<Integer> all) {
    public static final int EXTRA = 3;

    /** Finds the fill-in-the-middle tokens of a vocabulary, if it has them. */
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

    /** Returns true if a document contains no fill-in-the-middle token. */
    public boolean isFreeOf(int... ids) {
        return Arrays.stream(ids).noneMatch(all::contains);
    }

    /** Transforms a document; {@code suffixFirst} selects the order suffix, prefix, middle (SPM). */
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

    /** Prefix, suffix and middle of a transformed document. */
    public record Parts(int[] prefix, int[] suffix, int[] middle) {}

    /** Splits a transformed document that has one middle and the prefix first. */
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
