package dev.starforge.text.fim;

import dev.starforge.text.tokenizer.Tokenizer;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The tokens a family of models was trained to fill in with (Bavarian et al. 2022).
 *
 * @param own further tokens that occur in filling in only
 * @param repository the token before the name of a repository; empty when there is none
 * @param file the token before the name of a file; empty when there is none
 * @param spaced whether the tokenizer puts a space before any text, which a suffix must not have
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

    /** Those of a vocabulary, if it has a family of them. */
    public static Optional<FimMarkers> of(Tokenizer tokenizer) {
        return KNOWN.stream()
                .filter(markers -> markers.prefixSuffixMiddle()
                        .allMatch(token -> tokenizer.id(token).isPresent()))
                .findFirst();
    }

    /** Prefix, suffix, middle. */
    public Stream<String> prefixSuffixMiddle() {
        return Stream.of(prefix, suffix, middle);
    }

    /** What such a model may write after the middle although its settings do not call it an end of text. */
    public Stream<String> stopTokens() {
        return Stream.of(repository, file).filter(token -> !token.isEmpty());
    }

    /** Every token that occurs in filling in only. */
    public Stream<String> all() {
        return Stream.concat(prefixSuffixMiddle(), own.stream());
    }
}
