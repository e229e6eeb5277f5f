package dev.starforge.text.fim;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.TokenizerException;
import dev.starforge.text.tokenizer.HealedPrompt;
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
    /** Maximum number of tokens of the file that an editor's request is about. */
    public static final int NEAR_TOKENS = 2048;

    /** Lines before the cursor's line that the middle begins with, if it begins at the start of a line. */
    public static final int LINES_BEFORE = 4;

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

    /** Builds the prompt for the middle between a prefix and a suffix, without a limit of its length. */
    public HealedPrompt prompt(String prefix, String suffix, boolean healing) {
        return window(new Cursor(prefix, "", suffix), List.of(), Integer.MAX_VALUE, Integer.MAX_VALUE, healing)
                .prompt();
    }

    /**
     * The text around the position to fill in.
     *
     * @param begun the part of the middle that is already written
     */
    public record Cursor(String prefix, String begun, String suffix) {}

    /** An excerpt of another file, placed before the file to complete. */
    public record Snippet(String file, String text) {}

    /**
     * A prompt within a token limit.
     *
     * @param truncated whether text was dropped to meet the limit
     */
    public record Window(HealedPrompt prompt, boolean truncated) {}

    /** The tokens around the middle, and those that it begins with. */
    private record Parts(int[] before, int[] after, int[] given) {
        /** Keeps the tokens nearest the cursor, at most {@code most}; a quarter of them for the suffix. */
        Parts nearest(int most) {
            int suffix = Math.clamp(most / 4, 0, after.length);
            int line = Math.clamp(most - suffix, 0, given.length);
            int prefix = Math.clamp(most - suffix - line, 0, before.length);
            return new Parts(last(before, prefix), Arrays.copyOf(after, suffix), last(given, line));
        }

        int length() {
            return before.length + after.length + given.length;
        }

        private static int[] last(int[] ids, int count) {
            return Arrays.copyOfRange(ids, ids.length - count, ids.length);
        }
    }

    /**
     * Builds the prompt for the middle at a cursor, preceded by snippets of other files in the repository format (Hui et
     * al. 2024, Qwen2.5-Coder) if the vocabulary has its tokens. Keeps the text closest to the middle: the end of the
     * prefix, the start of the suffix, and the last snippets.
     *
     * <p>With token healing, the cursor may be anywhere: the middle begins at the start of a line, four lines before the
     * cursor's. Its text before the cursor is given as the beginning of the middle, after the suffix, and the last tokens
     * of that are generated again. So neither the prefix nor the middle begins or ends inside a word, and the text to
     * continue stands directly before its continuation instead of before the suffix. The completion is only what follows
     * the cursor.
     *
     * @param near maximum number of tokens for prefix and suffix, in a ratio of three to one
     * @param room maximum number of tokens in total
     */
    public Window window(Cursor cursor, List<Snippet> snippets, int near, int room, boolean healing) {
        int[] bos = tokenizer.encode("", true);
        Parts whole = healing ? fromLines(cursor) : fromCursor(cursor);
        Parts parts = whole.nearest(Math.min(near, room - bos.length - 3));
        TokenIdList own = new TokenIdList();
        own.add(id(markers.prefix()));
        own.addAll(parts.before());
        own.add(id(markers.suffix()));
        own.addAll(parts.after());
        own.add(id(markers.middle()));
        own.addAll(parts.given());
        int[] asked = own.toArray();
        int[] others = others(snippets);
        int shown = Math.clamp(room - bos.length - asked.length, 0, others.length);
        TokenIdList prompt = new TokenIdList();
        prompt.addAll(bos);
        prompt.addAll(Arrays.copyOfRange(others, others.length - shown, others.length));
        prompt.addAll(asked);
        int[] ids = prompt.toArray();
        return new Window(
                healing ? tokenizer.heal(ids) : HealedPrompt.asIs(ids),
                shown < others.length || parts.length() < whole.length());
    }

    private Parts fromCursor(Cursor cursor) {
        TokenIdList before = new TokenIdList();
        tokenizer.encode(cursor.prefix(), false, before);
        before.addAll(inside(cursor.begun()));
        return new Parts(before.toArray(), suffix(cursor), new int[0]);
    }

    private Parts fromLines(Cursor cursor) {
        String text = cursor.prefix() + cursor.begun();
        int start = text.lastIndexOf('\n') + 1;
        for (int i = 0; i < LINES_BEFORE && start > 0; i++) {
            start = text.lastIndexOf('\n', start - 2) + 1;
        }
        return new Parts(
                tokenizer.encode(text.substring(0, start), false), suffix(cursor), inside(text.substring(start)));
    }

    private int[] suffix(Cursor cursor) {
        return markers.spaced() ? withoutSpace(cursor.suffix()) : tokenizer.encode(cursor.suffix(), false);
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
