package dev.starforge.train.corpus;

import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.nio.file.Path;
import java.util.Optional;

/**
 * The data of a run: training documents, validation documents, and the validation sample of every evaluation. Rejects
 * unusable data, both in a run and in its preflight check.
 */
public record RunData(DocumentSources sources, Corpus train, Corpus validation, Corpus.Sample sample)
        implements AutoCloseable {

    /** Opens the data of effective settings, for a model with {@code vocabulary} tokens. */
    public static RunData open(RunConfig config, Path model, int vocabulary, Optional<Tokenizer> tokenizer) {
        DocumentSources sources = DocumentSources.open(config, model, vocabulary, tokenizer);
        try {
            Optional<FimTokens> markers = tokenizer.flatMap(FimTokens::of);
            int context = config.get(Keys.CONTEXT);
            Corpus train = new Corpus(
                    sources.train(),
                    vocabulary,
                    sources.weights(),
                    new Corpus.Settings(
                            context,
                            config.get(Keys.PACKING),
                            config.get(Keys.SEED),
                            markers,
                            config.get(Keys.FIM_RATE),
                            config.get(Keys.SPM_RATE),
                            config.get(Keys.CURRICULUM).equals("short_first"),
                            false));
            if (train.windows() == 0 && train.facts().dropped() > 0) {
                throw config.wrong(
                        Keys.CONTEXT,
                        "no training data is left: " + train.facts().describeDropped());
            }
            if (train.windows() == 0) {
                throw DocumentSources.empty(config, Keys.TRAIN);
            }
            Corpus validation = new Corpus(
                    sources.validation(), vocabulary, document -> 1, Corpus.Settings.plain(context, markers));
            return new RunData(
                    sources,
                    train,
                    validation,
                    validation.sample(config.get(Keys.EVALUATION_TOKENS), config.get(Keys.SEED)));
        } catch (RuntimeException failure) {
            sources.close();
            throw failure;
        }
    }

    @Override
    public void close() {
        sources.close();
    }
}
