package dev.starforge.cli;

import dev.starforge.data.Tokenizer;
import dev.starforge.model.ModelException;
import dev.starforge.train.plan.Preflight;
import dev.starforge.train.text.Tokenizers;
import java.nio.file.Path;
import java.util.Optional;

/** Where the models are that are trained; one that is missing is an error that says how to get one. */
final class TrainingModels implements Preflight.Models {
    @Override
    public Path find(String name) {
        try {
            return ModelPlace.find(name);
        } catch (ModelException missing) {
            Path path = Path.of(name);
            String id = name.matches("[\\w.-]+/[\\w.-]+") ? name : "bigcode/starcoder2-3b";
            throw new ModelException(
                    path,
                    String.valueOf(missing.getMessage())
                                    .substring(path.toString().length() + 2) + ". To get one: `hf download " + id
                            + " --local-dir models/" + Path.of(id).getFileName() + "`, or git clone "
                            + "https://huggingface.co/" + id
                            + ", and set model.pretrained_model to its folder. Without one: "
                            + "--set model.pretrained_model=scratch trains a new small model with the sizes "
                            + "model.hidden_size, model.num_hidden_layers and model.num_attention_heads; "
                            + "`starforge train --init` writes a file with these settings",
                    missing);
        }
    }

    @Override
    public Optional<Tokenizer> tokenizer(Path model) {
        return Tokenizers.find(model);
    }
}
