package dev.starforge.cli.model;

import dev.starforge.cli.hub.ModelId;
import dev.starforge.model.ModelException;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.plan.Preflight;
import dev.starforge.train.text.Tokenizers;
import java.nio.file.Path;
import java.util.Optional;

/** Finds the models for training. The error for a missing model describes how to download one. */
public final class PretrainedModels implements Preflight.Models {
    @Override
    public Path find(String name) {
        try {
            return ModelLocator.find(name);
        } catch (ModelException missing) {
            Path path = Path.of(name);
            throw new ModelException(
                    path,
                    String.valueOf(missing.getMessage())
                                    .substring(path.toString().length() + 2)
                            + ". To download a model, run `starforge pull "
                            + ModelId.parse(name).map(ModelId::toString).orElse("bigcode/starcoder2-3b")
                            + "`"
                            + " and set model.pretrained_model to its name. To train a new small model, pass "
                            + "--set model.pretrained_model=scratch; its sizes are "
                            + "model.hidden_size, model.num_hidden_layers and model.num_attention_heads; "
                            + "`starforge train --init` writes a configuration file with these settings",
                    missing);
        }
    }

    @Override
    public Optional<Tokenizer> tokenizer(Path model) {
        return Tokenizers.find(model);
    }
}
