package dev.starforge.data;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Asks a model for what stands between two texts, with the tokens it was trained to be asked with: prefix, then suffix,
 * then the middle is its to write (Bavarian et al. 2022).
 */
public final class FillInMiddle {
    private static final String ANCHOR = "☺";

    private final Tokenizer tokenizer;
    private final FimMarkers markers;

    private FillInMiddle(Tokenizer tokenizer, FimMarkers markers) {
        this.tokenizer = tokenizer;
        this.markers = markers;
    }

    /** Fill-in-the-middle prompts of a model whose tokenizer has the tokens for them. */
    public static FillInMiddle of(Tokenizer tokenizer, Path model) {
        return FimMarkers.of(tokenizer)
                .map(markers -> new FillInMiddle(tokenizer, markers))
                .orElseThrow(() -> new TokenizerException(
                        model,
                        "its tokenizer has no fill-in-the-middle tokens; looked for "
                                + FimMarkers.KNOWN.stream()
                                        .map(markers -> markers.three().collect(Collectors.joining(" ")))
                                        .collect(Collectors.joining(", or "))));
    }

    /** The prompt for what is between the two texts. */
    public int[] prompt(String prefix, String suffix) {
        TokenBuffer ids = new TokenBuffer();
        tokenizer.encode("", true, ids);
        ids.add(id(markers.prefix()));
        tokenizer.encode(prefix, false, ids);
        ids.add(id(markers.suffix()));
        ids.addAll(markers.spaced() ? withoutSpace(suffix) : tokenizer.encode(suffix, false));
        ids.add(id(markers.middle()));
        return ids.toArray();
    }

    /** Tokens that end the middle. */
    public Set<Integer> ends() {
        return Stream.concat(markers.all(), markers.after().stream())
                .map(tokenizer::id)
                .flatMapToInt(OptionalInt::stream)
                .boxed()
                .collect(Collectors.toCollection(TreeSet::new));
    }

    private int id(String token) {
        return tokenizer.id(token).orElseThrow();
    }

    /** As CodeLlama's own code does it: behind a character that merges with nothing, which is then taken off. */
    private int[] withoutSpace(String text) {
        int[] anchor = tokenizer.encode(ANCHOR, false);
        int[] both = tokenizer.encode(ANCHOR + text, false);
        boolean intact = both.length >= anchor.length
                && IntStream.range(0, anchor.length).allMatch(i -> both[i] == anchor[i]);
        return intact ? Arrays.copyOfRange(both, anchor.length, both.length) : tokenizer.encode(text, false);
    }
}
