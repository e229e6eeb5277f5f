package dev.starforge.data.dataset.report;

import dev.starforge.data.Dataset;
import dev.starforge.data.DatasetException;
import dev.starforge.data.dataset.sample.SampleFormat;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/** The tokenizer of a dataset: an existing one, or one to train. */
public sealed interface TokenizerChoice {
    /** The tokenizer that was trained for an existing dataset; {@code usual} is its size if the manifest has none. */
    static Optional<TokenizerToTrain> trainedFor(Path dataset, int usual) {
        Path manifest = dataset.resolve(Dataset.MANIFEST);
        if (!Files.exists(manifest) || !Files.exists(dataset.resolve(Manifest.TOKENIZER))) {
            return Optional.empty();
        }
        try {
            JsonNode size = Jackson.JSON.readTree(manifest).path("tokenizer").path("trained");
            return Optional.of(new TokenizerToTrain(size.asInt(usual)));
        } catch (JacksonException unreadable) {
            throw new DatasetException(manifest, "is not a manifest: " + unreadable.getMessage(), unreadable);
        }
    }

    /** The given tokenizer, or the one that an existing dataset in {@code out} was made with; empty if none exists yet. */
    default Optional<Tokenizer> existing(Path out) {
        if (this instanceof ExistingTokenizer given) {
            return Optional.of(given.tokenizer());
        }
        Path file = out.resolve(Manifest.TOKENIZER);
        return Files.exists(file) ? Optional.of(Tokenizer.read(file)) : Optional.empty();
    }

    /** An existing tokenizer; its file, a {@code tokenizer.json} or a GGUF file, is named in the manifest by its hash. */
    record ExistingTokenizer(Path file, Tokenizer tokenizer) implements TokenizerChoice {}

    /** A tokenizer to train on the training split; it is written into the dataset. */
    record TokenizerToTrain(int vocabularySize) implements TokenizerChoice {
        /** All bytes and the special tokens of samples. */
        public static final int LEAST = 256 + SampleFormat.specialTokens().size();

        public TokenizerToTrain {
            if (vocabularySize < LEAST) {
                throw new IllegalArgumentException(
                        "a vocabulary of " + vocabularySize + ", expected at least " + LEAST);
            }
        }
    }
}
