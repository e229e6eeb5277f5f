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

/** Where the tokenizer of a dataset comes from. */
public sealed interface TokenizerChoice {
    /** The one that was trained for a dataset that is there already; {@code usual} is its size where nobody wrote it down. */
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

    /** One that exists; its file, a {@code tokenizer.json} or a GGUF file, is named in the manifest by its hash. */
    record ExistingTokenizer(Path file, Tokenizer tokenizer) implements TokenizerChoice {}

    /** One learned from the training split, written beside the dataset. */
    record TokenizerToTrain(int vocabularySize) implements TokenizerChoice {
        /** Bytes, and the tokens that samples are marked with. */
        public static final int LEAST = 256 + SampleFormat.specialTokens().size();

        public TokenizerToTrain {
            if (vocabularySize < LEAST) {
                throw new IllegalArgumentException(
                        "a vocabulary of " + vocabularySize + ", expected at least " + LEAST);
            }
        }
    }
}
