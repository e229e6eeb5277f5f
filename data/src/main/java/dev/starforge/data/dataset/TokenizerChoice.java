package dev.starforge.data.dataset;

import dev.starforge.data.Tokenizer;
import java.nio.file.Path;

/** Where the tokenizer of a dataset comes from. */
public sealed interface TokenizerChoice {
    /** One that exists; its file, a {@code tokenizer.json} or a GGUF file, is named in the manifest by its hash. */
    record Given(Path file, Tokenizer tokenizer) implements TokenizerChoice {}

    /** One learned from the training split, written beside the dataset. */
    record Trained(int vocabularySize) implements TokenizerChoice {
        /** Bytes, and the tokens that samples are marked with. */
        public static final int LEAST = 256 + SampleFormat.specialTokens().size();

        public Trained {
            if (vocabularySize < LEAST) {
                throw new IllegalArgumentException(
                        "a vocabulary of " + vocabularySize + ", expected at least " + LEAST);
            }
        }
    }
}
