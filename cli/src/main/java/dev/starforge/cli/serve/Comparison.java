package dev.starforge.cli.serve;

import dev.starforge.api.server.EngineOptions;
import dev.starforge.api.server.ModelServer;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.model.ModelException;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.AdapterTable;
import dev.starforge.serve.engine.ModelCard.SamplePrompt;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.tune.TuneState;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Optional;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;

/**
 * A tuned model as base and adapter, so that one copy of the weights serves both and they can be compared. A merged model is
 * served so only if its base takes about the same memory: the base of a quantized model can be several times as large.
 *
 * @param base model folder or GGUF file of the base
 * @param baseName its name in the API
 */
public record Comparison(Path base, String baseName, Path adapter) {
    private static final double LARGEST = 1.25;

    /**
     * Finds base and adapter of a model; empty if it has none, the base is missing or too large, or an {@link AdapterTable}
     * cannot hold the adapter. Such a model is served alone.
     */
    public static Optional<Comparison> of(TunedModel tuned) {
        if (tuned.adapter().isPresent()) {
            return of(
                    tuned.model(),
                    ModelServer.nameOf(tuned.model()),
                    tuned.adapter().get());
        }
        return TuneState.originOf(tuned.model()).flatMap(origin -> {
            try {
                Path adapter = Checkpoints.resolve(origin.run());
                Path base = TunedModel.baseOf(adapter, Optional.empty(), ModelFlags::base);
                return bytes(base) > LARGEST * bytes(tuned.model())
                        ? Optional.empty()
                        : of(base, ModelServer.nameOf(Path.of(origin.base())), adapter);
            } catch (ModelException | TrainException | InvalidPathException | UncheckedIOException missing) {
                return Optional.empty();
            }
        });
    }

    private static Optional<Comparison> of(Path base, String baseName, Path adapter) {
        try (ModelFiles files = ModelFiles.open(base)) {
            return AdapterTable.canHold(adapter, files.architecture())
                    ? Optional.of(new Comparison(base, baseName, adapter))
                    : Optional.empty();
        } catch (ModelException unreadable) {
            return Optional.empty();
        }
    }

    /** A prompt from the repository that a model was tuned on. */
    static Optional<SamplePrompt> sample(TunedModel tuned) {
        return TuneState.originOf(tuned.model())
                .map(origin -> origin.evaluation().path("prompts").path(0))
                .filter(prompt -> prompt.has("prompt") && prompt.has("after"))
                .map(prompt -> new SamplePrompt(text(prompt, "prompt"), text(prompt, "after")));
    }

    private static String text(JsonNode node, String field) {
        return node.path(field).asString("");
    }

    /** The engine's options with the adapter, under the name of the model. */
    EngineOptions applyTo(EngineOptions engine, String name) {
        return engine.withDefaultAdapter(name, adapter, name(name));
    }

    /** The name of the base beside a model. */
    String name(String tuned) {
        return baseName.equals(tuned) ? baseName + "-base" : baseName;
    }

    private static long bytes(Path model) {
        if (Files.isRegularFile(model)) {
            return model.toFile().length();
        }
        try (Stream<Path> files = Files.list(model)) {
            return files.filter(file -> file.toString().endsWith(".safetensors"))
                    .mapToLong(file -> file.toFile().length())
                    .sum();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }
}
