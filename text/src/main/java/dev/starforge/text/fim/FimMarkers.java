package dev.starforge.text.fim;

import dev.starforge.text.tokenizer.Tokenizer;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The fill-in-the-middle tokens of a model family (Bavarian et al. 2022).
 *
 * @param own further tokens used only for fill-in-the-middle
 * @param repository the token before the name of a repository; empty if there is none
 * @param file the token before the name of a file; empty if there is none
 * @param spaced whether the tokenizer prepends a space to text, which must not happen to a suffix
 */
public record FimMarkers(
        String prefix, String suffix, String middle, List<String> own, String repository, String file, boolean spaced) {
    public static final List<FimMarkers> KNOWN = List.of(
            new FimMarkers(
                    "<fim_prefix>", "<fim_suffix>", "<fim_middle>", List.of("<fim_pad>"), "", "<file_sep>", false),
            new FimMarkers(
                    "<|fim_prefix|>",
                    "<|fim_suffix|>",
                    "<|fim_middle|>",
                    List.of("<|fim_pad|>"),
                    "<|repo_name|>",
                    "<|file_sep|>",
                    false),
            new FimMarkers("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", List.of(), "", "", false),
            new FimMarkers("▁<PRE>", "▁<SUF>", "▁<MID>", List.of("▁<EOT>"), "", "", true));

    /** Finds the markers of a vocabulary, if it has them. */
    public static Optional<FimMarkers> of(Tokenizer tokenizer) {
        return KNOWN.stream()
                .filter(markers -> markers.prefixSuffixMiddle()
                        .allMatch(token -> tokenizer.id(token).isPresent()))
                .findFirst();
    }

    /** The tokens for prefix, suffix and middle. */
    public Stream<String> prefixSuffixMiddle() {
        return Stream.of(prefix, suffix, middle);
    }

    /** Tokens that end the middle, although the model's settings may not list them as end-of-text tokens. */
    public Stream<String> stopTokens() {
        return Stream.of(repository, file).filter(token -> !token.isEmpty());
    }

    /** All tokens used only for fill-in-the-middle. */
    public Stream<String> all() {
        return Stream.concat(prefixSuffixMiddle(), own.stream());
    }
}
