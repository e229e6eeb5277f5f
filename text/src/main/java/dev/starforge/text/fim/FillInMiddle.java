package dev.starforge.text.fim;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.TokenizerException;
import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Fill-in-the-middle prompts in prefix-suffix-middle order, with the model's own FIM tokens (Bavarian et al. 2022).
 */
public final class FillInMiddle {
    private static final String ANCHOR = "☺";

    private final Tokenizer tokenizer;
    private final FimMarkers markers;

    private FillInMiddle(Tokenizer tokenizer, FimMarkers markers) {
        this.tokenizer = tokenizer;
        this.markers = markers;
    }

    /** Creates the prompt builder of a model; fails if its tokenizer has no fill-in-the-middle tokens. */
    public static FillInMiddle of(Tokenizer tokenizer, Path model) {
        return FimMarkers.of(tokenizer)
                .map(markers -> new FillInMiddle(tokenizer, markers))
                .orElseThrow(() -> new TokenizerException(
                        model,
                        "its tokenizer has no fill-in-the-middle tokens; looked for "
                                + FimMarkers.KNOWN.stream()
                                        .map(markers ->
                                                markers.prefixSuffixMiddle().collect(Collectors.joining(" ")))
                                        .collect(Collectors.joining(", or "))));
    }

    /** Builds the prompt for the middle between a prefix and a suffix. */
    public int[] prompt(String prefix, String suffix) {
        TokenIdList ids = new TokenIdList();
        tokenizer.encode("", true, ids);
        ids.add(id(markers.prefix()));
        tokenizer.encode(prefix, false, ids);
        ids.add(id(markers.suffix()));
        ids.addAll(markers.spaced() ? withoutSpace(suffix) : tokenizer.encode(suffix, false));
        ids.add(id(markers.middle()));
        return ids.toArray();
    }

    /** An excerpt of another file, placed before the file to complete. */
    public record Snippet(String file, String text) {}

    /**
     * A prompt within a token limit.
     *
     * @param truncated whether text was dropped to meet the limit
     */
    public record Window(int[] prompt, boolean truncated) {}

    /**
     * Builds the prompt for the middle between a prefix and a suffix, preceded by snippets of other files in the
     * repository format (Hui et al. 2024, Qwen2.5-Coder) if the vocabulary has its tokens. Keeps the text closest to
     * the middle: the end of the prefix, the start of the suffix, and the last snippets.
     *
     * @param begun the part of the middle that is already written
     * @param near maximum number of tokens for prefix and suffix, in a ratio of three to one
     * @param room maximum number of tokens in total
     */
    public Window window(String prefix, String begun, String suffix, List<Snippet> snippets, int near, int room) {
        int[] bos = tokenizer.encode("", true);
        int[] middle = inside(begun);
        int most = Math.min(near, room - bos.length - 3 - middle.length);
        int[] before = tokenizer.encode(prefix, false);
        int[] after = markers.spaced() ? withoutSpace(suffix) : tokenizer.encode(suffix, false);
        int suffixLength = Math.clamp(most / 4, 0, after.length);
        int prefixLength = Math.clamp(most - suffixLength, 0, before.length);
        TokenIdList own = new TokenIdList();
        own.add(id(markers.prefix()));
        own.addAll(Arrays.copyOfRange(before, before.length - prefixLength, before.length));
        own.addAll(middle);
        own.add(id(markers.suffix()));
        own.addAll(Arrays.copyOf(after, suffixLength));
        own.add(id(markers.middle()));
        int[] asked = own.toArray();
        int[] others = others(snippets);
        int shown = Math.clamp(room - bos.length - asked.length, 0, others.length);
        TokenIdList prompt = new TokenIdList();
        prompt.addAll(bos);
        prompt.addAll(Arrays.copyOfRange(others, others.length - shown, others.length));
        prompt.addAll(asked);
        boolean whole = shown == others.length && prefixLength == before.length && suffixLength == after.length;
        return new Window(prompt.toArray(), !whole);
    }

    private int[] others(List<Snippet> snippets) {
        TokenIdList ids = new TokenIdList();
        if (!snippets.isEmpty() && tokenizer.id(markers.repository()).isPresent()) {
            marked(markers.repository(), "repository", ids);
        }
        for (Snippet snippet : snippets) {
            marked(markers.file(), snippet.file(), ids);
            ids.addAll(inside(snippet.text()));
        }
        if (!snippets.isEmpty()) {
            marked(markers.file(), "file", ids);
        }
        return ids.toArray();
    }

    /** Writes a name after its marker token, or empty lines if the vocabulary has no such token. */
    private void marked(String token, String name, TokenIdList ids) {
        if (tokenizer.id(token).isPresent()) {
            ids.add(id(token));
            ids.addAll(inside(name + "\n"));
        } else {
            ids.addAll(inside("\n\n"));
        }
    }

    private int[] inside(String text) {
        TokenIdList ids = new TokenIdList();
        if (!text.isEmpty()) {
            tokenizer.encodeFragment(text, ids);
        }
        return ids.toArray();
    }

    /** The tokens that end the middle. */
    public Set<Integer> ends() {
        return Stream.concat(markers.all(), markers.stopTokens())
                .map(tokenizer::id)
                .flatMapToInt(OptionalInt::stream)
                .boxed()
                .collect(Collectors.toCollection(TreeSet::new));
    }

    private int id(String token) {
        return tokenizer.id(token).orElseThrow();
    }

    /**
     * Encodes without a leading space, as in CodeLlama's code: after a character that merges with nothing, which is
     * then removed.
     */
    private int[] withoutSpace(String text) {
        int[] anchor = tokenizer.encode(ANCHOR, false);
        int[] both = tokenizer.encode(ANCHOR + text, false);
        boolean intact = both.length >= anchor.length
                && IntStream.range(0, anchor.length).allMatch(i -> both[i] == anchor[i]);
        return intact ? Arrays.copyOfRange(both, anchor.length, both.length) : tokenizer.encode(text, false);
    }
}
