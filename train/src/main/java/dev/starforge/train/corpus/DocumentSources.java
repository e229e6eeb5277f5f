package dev.starforge.train.corpus;

import dev.starforge.data.Dataset;
import dev.starforge.data.JsonDocuments;
import dev.starforge.data.SampleOrigin;
import dev.starforge.data.Split;
import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.text.config.ConfigException;
import dev.starforge.text.config.Key;
import dev.starforge.text.file.Hashes;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.TrainException;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.text.ChatTemplates;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * The documents of a run, from a dataset or from single files, with their loss weights and the hashes of their files.
 */
public final class DocumentSources implements AutoCloseable {
    private static final double DAY = 24 * 3600;

    private final TokenDocuments train;
    private final TokenDocuments validation;
    private final TokenDocuments test;
    private final Corpus.Weights weights;
    private final Map<String, String> hashes;
    private final Map<String, Long> languages;
    private final Runnable close;

    private DocumentSources(
            TokenDocuments train,
            TokenDocuments validation,
            TokenDocuments test,
            Corpus.Weights weights,
            Map<String, String> hashes,
            Map<String, Long> languages,
            Runnable close) {
        this.train = train;
        this.validation = validation;
        this.test = test;
        this.weights = weights;
        this.hashes = hashes;
        this.languages = languages;
        this.close = close;
    }

    /** Opens the sources in the settings. Files with text need a tokenizer. */
    public static DocumentSources open(RunConfig config, Path model, int vocabulary, Optional<Tokenizer> tokenizer) {
        if (!config.get(Keys.DATASET).isEmpty()) {
            if (!config.get(Keys.TRAIN).isEmpty()) {
                throw config.wrong(Keys.TRAIN, "data.path names a dataset already; set one of the two");
            }
            return dataset(config, Files.isRegularFile(model) ? model : model.resolve("tokenizer.json"), vocabulary);
        }
        if (config.get(Keys.TRAIN).isEmpty()) {
            throw config.wrong(
                    Keys.DATASET, "nothing to train on: set data.path to a dataset, or data.train to a file");
        }
        if (config.get(Keys.HALF_LIFE) > 0
                || config.get(Keys.NEWEST_TOKENS) > 0
                || !config.get(Keys.DIRECTORIES).isEmpty()
                || !config.get(Keys.SINCE).isEmpty()) {
            throw config.wrong(
                    Keys.TRAIN, "single files have no commits or directories to select or weight documents by");
        }
        Map<String, String> hashes = new TreeMap<>();
        TokenDocuments train = file(config, Keys.TRAIN, model, vocabulary, tokenizer, hashes);
        TokenDocuments validation = file(config, Keys.VALIDATION, model, vocabulary, tokenizer, hashes);
        TokenDocuments test = file(config, Keys.TEST, model, vocabulary, tokenizer, hashes);
        return new DocumentSources(train, validation, test, document -> 1, hashes, Map.of(), () -> {
            train.close();
            validation.close();
            test.close();
        });
    }

    private static DocumentSources dataset(RunConfig config, Path tokenizer, int vocabulary) {
        Path folder = Path.of(config.get(Keys.DATASET));
        Dataset dataset = Dataset.open(folder);
        if (dataset.vocabularySize() > vocabulary) {
            dataset.close();
            throw config.wrong(
                    Keys.DATASET,
                    "its tokenizer has " + dataset.vocabularySize() + " tokens, the model has " + vocabulary);
        }
        if (!dataset.tokenizerHash().isEmpty()
                && Files.isRegularFile(tokenizer)
                && !dataset.tokenizerHash().equals(Hashes.sha256(tokenizer))) {
            dataset.close();
            throw config.wrong(
                    Keys.DATASET,
                    "it was made with another tokenizer than " + tokenizer + "; make it with dataset --tokenizer "
                            + tokenizer);
        }
        TokenDocuments train = dataset.documents(Split.TRAIN);
        return new DocumentSources(
                train,
                dataset.documents(Split.VALIDATION),
                dataset.documents(Split.TEST),
                weights(config, dataset, train.count()),
                Map.of("manifest", Hashes.sha256(folder.resolve(Dataset.MANIFEST))),
                dataset.languages(),
                dataset::close);
    }

    /** Loss weights by age and directory; 0 for documents that are not newer than {@code training.since_commit}. */
    private static Corpus.Weights weights(RunConfig config, Dataset dataset, int count) {
        double halfLife = config.get(Keys.HALF_LIFE);
        Map<String, Double> directories = config.get(Keys.DIRECTORIES);
        String since = config.get(Keys.SINCE);
        int most = config.get(Keys.NEWEST_TOKENS);
        if (halfLife == 0 && directories.isEmpty() && since.isEmpty() && most == 0) {
            return document -> 1;
        }
        long newest = Long.MIN_VALUE;
        long after = Long.MIN_VALUE;
        for (int d = 0; d < count; d++) {
            SampleOrigin origin = dataset.origin(Split.TRAIN, d);
            newest = Math.max(newest, origin.time());
            if (!since.isEmpty() && origin.commit().startsWith(since)) {
                after = Math.max(after, origin.time());
            }
        }
        if (!since.isEmpty() && after == Long.MIN_VALUE) {
            throw config.wrong(Keys.SINCE, "no document of the dataset is of this commit");
        }
        long latest = newest;
        BitSet chosen =
                RecencySampler.of(dataset, after, most, config.get(Keys.SEED)).documents();
        return document -> {
            if (!chosen.get(document)) {
                return 0;
            }
            SampleOrigin origin = dataset.origin(Split.TRAIN, document);
            double weight = halfLife == 0 ? 1 : Math.pow(0.5, (latest - origin.time()) / DAY / halfLife);
            return weight * directory(directories, origin.directory());
        };
    }

    private static double directory(Map<String, Double> weights, String directory) {
        String best = "";
        double weight = 1;
        for (Map.Entry<String, Double> entry : weights.entrySet()) {
            String name = entry.getKey().replaceAll("/+$", "");
            boolean inside = directory.equals(name) || directory.startsWith(name + "/");
            if (inside && name.length() >= best.length()) {
                best = name;
                weight = entry.getValue();
            }
        }
        return weight;
    }

    private static TokenDocuments file(
            RunConfig config,
            Key<String> key,
            Path model,
            int vocabulary,
            Optional<Tokenizer> tokenizer,
            Map<String, String> hashes) {
        if (config.get(key).isEmpty()) {
            return NONE;
        }
        Path file = Path.of(config.get(key));
        if (!Files.isRegularFile(file)) {
            throw new TrainException(file + ": does not exist; it is set in " + key.path());
        }
        hashes.put(key.path(), Hashes.sha256(file));
        if (file.toString().endsWith(".jsonl")) {
            Tokenizer reader =
                    tokenizer.orElseThrow(() -> config.wrong(key, "text needs a tokenizer, and the model has none"));
            return JsonDocuments.lines(file, reader, () -> ChatTemplates.require(model, reader));
        }
        try (var reader = Files.newBufferedReader(file)) {
            int first = reader.read();
            while (Character.isWhitespace(first)) {
                first = reader.read();
            }
            return first == '['
                    ? JsonDocuments.enhanced(file, vocabulary)
                    : JsonDocuments.tokenSequences(file, vocabulary);
        } catch (IOException failure) {
            throw new TrainException(file + ": cannot be read: " + failure, failure);
        }
    }

    /**
     * Creates an error for a split without tokens that count in the loss. The error names the setting that selected it.
     */
    public static ConfigException empty(RunConfig config, Key<String> file) {
        String split = file.path().substring(file.path().indexOf('.') + 1);
        if (config.get(Keys.DATASET).isEmpty()) {
            return config.wrong(file, "no document has a token that counts in the loss");
        }
        return config.wrong(
                Keys.DATASET,
                "the " + split + " split of this dataset has no document with a token that counts in the loss; see "
                        + Path.of(config.get(Keys.DATASET)).resolve("report.html") + " for what was dropped");
    }

    private static final TokenDocuments NONE = new TokenDocuments() {
        @Override
        public int count() {
            return 0;
        }

        @Override
        public int length(int document) {
            throw new IndexOutOfBoundsException(document);
        }

        @Override
        public TokenDocument read(int document) {
            throw new IndexOutOfBoundsException(document);
        }

        @Override
        public long tokens() {
            return 0;
        }

        @Override
        public void close() {}
    };

    public TokenDocuments train() {
        return train;
    }

    public TokenDocuments validation() {
        return validation;
    }

    public TokenDocuments test() {
        return test;
    }

    public Corpus.Weights weights() {
        return weights;
    }

    /** Number of files by language, if the dataset records it. */
    public Map<String, Long> languages() {
        return languages;
    }

    /** Hash of the manifest, or of every file. */
    public Map<String, String> hashes() {
        return hashes;
    }

    @Override
    public void close() {
        close.run();
    }
}
