package dev.starforge.cli.model;

import dev.starforge.data.Dataset;
import dev.starforge.data.DatasetException;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.report.TokenizerChoice;
import dev.starforge.model.ModelException;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.text.config.ConfigException;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.text.Tokenizers;
import dev.starforge.train.tune.TunedModel;
import dev.starforge.train.weights.ScratchModel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;
import tools.jackson.core.JacksonException;

/**
 * Which tokenizer a dataset is made with: the one that is named, else the one that it was begun with, else the one of the model
 * that will be trained on it, so that training just works. Where that model is not at hand one is trained, and
 * {@code note} says what follows from that.
 *
 * @param model where the tokenizer comes from, if it is a model's
 * @param note what the user did not say, in a sentence; empty where the choice is theirs
 */
public record DatasetTokenizer(TokenizerChoice choice, Optional<Path> model, String note) {
    private static final String TRAIN = "train:";
    private static final int USUAL = 8192;

    public static DatasetTokenizer of(RunConfig config, Path out) {
        String named = config.get(DatasetKeys.TOKENIZER);
        if (named.startsWith(TRAIN)) {
            return new DatasetTokenizer(trained(config, named.substring(TRAIN.length())), Optional.empty(), "");
        }
        if (!named.equals("auto")) {
            Path path = Path.of(named);
            if (!Files.exists(path)) {
                throw new DatasetException(path, "tokenizer not found; --tokenizer train:N trains one");
            }
            return new DatasetTokenizer(given(path), Optional.of(path), "");
        }
        Optional<TokenizerChoice.TokenizerToTrain> own = TokenizerChoice.trainedFor(out, USUAL);
        if (own.isPresent()) {
            return new DatasetTokenizer(own.get(), Optional.empty(), "");
        }
        return ofModel(config);
    }

    private static DatasetTokenizer ofModel(RunConfig config) {
        String name = config.model();
        if (name.equals(ScratchModel.NAME)) {
            int size = config.get(Keys.VOCABULARY);
            return new DatasetTokenizer(
                    new TokenizerChoice.TokenizerToTrain(size),
                    Optional.empty(),
                    count(size) + " (model.pretrained_model=scratch)");
        }
        Path place;
        try {
            place = ModelLocator.find(name, "");
        } catch (ModelException missing) {
            return instead(name + " is not on this machine");
        }
        Path model = TunedModel.completeModel(place);
        return Tokenizers.find(model).isEmpty()
                ? instead(model + " has no tokenizer")
                : new DatasetTokenizer(
                        given(model),
                        Optional.of(model),
                        "tokenizer: " + (name.equals(EmbeddedModel.NAME) ? EmbeddedModel.NAME : model)
                                + " (model.pretrained_model)");
    }

    /**
     * Sets the length of documents if the settings do not: that of the dataset that is there, which grows with the same only,
     * or else at most the context of the model that will be trained.
     */
    public static RunConfig withLength(RunConfig config, Path out) {
        if (config.isSet(Keys.CONTEXT) || config.get(DatasetKeys.CONTEXT_LENGTH).isPresent()) {
            return config;
        }
        Path manifest = out.resolve(Dataset.MANIFEST);
        if (Files.isRegularFile(manifest)) {
            int length = lengthOf(manifest);
            return length == 0 ? config : config.with(DatasetKeys.CONTEXT_LENGTH, OptionalInt.of(length));
        }
        Optional<Path> model = config.get(DatasetKeys.TOKENIZER).equals("auto") ? model(config) : Optional.empty();
        if (model.isEmpty()) {
            return config;
        }
        try (ModelFiles files = ModelFiles.open(model.get())) {
            int context = files.config().size("max_position_embeddings", config.get(Keys.CONTEXT));
            return config.with(Keys.CONTEXT, Math.min(context, config.get(Keys.CONTEXT)));
        }
    }

    /** The recorded length of documents; 0 if the file is not a manifest, which the builder reports. */
    private static int lengthOf(Path manifest) {
        try {
            return Jackson.JSON
                    .readTree(manifest)
                    .path("config")
                    .path(DatasetKeys.shortName(DatasetKeys.CONTEXT_LENGTH))
                    .asInt(0);
        } catch (JacksonException unreadable) {
            return 0;
        }
    }

    private static Optional<Path> model(RunConfig config) {
        try {
            return config.model().equals(ScratchModel.NAME)
                    ? Optional.empty()
                    : Optional.of(ModelLocator.find(config.model()));
        } catch (ModelException missing) {
            return Optional.empty();
        }
    }

    private static DatasetTokenizer instead(String reason) {
        return new DatasetTokenizer(
                new TokenizerChoice.TokenizerToTrain(USUAL),
                Optional.empty(),
                count(USUAL) + ", since " + reason
                        + ". This dataset can train a new model (model.pretrained_model=scratch), but not a model with"
                        + " another vocabulary. To train such a model, pass its folder or .gguf file with --tokenizer"
                        + " or model.pretrained_model");
    }

    private static String count(int size) {
        return String.format(Locale.ROOT, "tokenizer: training a new one with %,d tokens", size);
    }

    private static TokenizerChoice.TokenizerToTrain trained(RunConfig config, String size) {
        try {
            return new TokenizerChoice.TokenizerToTrain(Integer.parseInt(size));
        } catch (NumberFormatException notOne) {
            throw wrong(config, "expected train:N, where N is a number", notOne);
        } catch (IllegalArgumentException tooFew) {
            throw wrong(config, String.valueOf(tooFew.getMessage()), tooFew);
        }
    }

    private static ConfigException wrong(RunConfig config, String message, Exception cause) {
        ConfigException wrong = config.wrong(DatasetKeys.TOKENIZER, message);
        wrong.initCause(cause);
        return wrong;
    }

    private static TokenizerChoice.ExistingTokenizer given(Path path) {
        if (path.toString().endsWith(".json")) {
            return new TokenizerChoice.ExistingTokenizer(path, Tokenizer.read(path));
        }
        Path file = Files.isDirectory(path) ? path.resolve("tokenizer.json") : path;
        return new TokenizerChoice.ExistingTokenizer(
                file,
                Tokenizers.find(path)
                        .orElseThrow(() ->
                                new DatasetException(file, "no tokenizer found; --tokenizer train:N trains one")));
    }
}
