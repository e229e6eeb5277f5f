package dev.starforge.train.config;

import dev.starforge.text.config.Key;
import java.util.List;

/** A commented config file with the settings that most runs change. */
public final class StarterConfig {
    private static final List<Key<?>> SHOWN = List.of(
            Keys.MODEL,
            Keys.CONTEXT,
            Keys.LORA,
            Keys.FOUR_BIT,
            Keys.RANK,
            Keys.ALPHA,
            Keys.DATASET,
            Keys.BATCH,
            Keys.ACCUMULATION,
            Keys.RATE,
            Keys.EPOCHS,
            Keys.EVAL_STEPS,
            Keys.SAVE_STEPS,
            Keys.FIM_RATE,
            Keys.EVALUATION_TOKENS,
            Keys.OUTPUT);

    /** Written as comments, since they apply to new models only. */
    private static final List<Key<?>> OF_NEW_MODEL = List.of(Keys.HIDDEN, Keys.LAYERS, Keys.HEADS, Keys.KV_HEADS);

    private StarterConfig() {}

    /** Returns YAML with the default values, except for the dataset. */
    public static String text() {
        StringBuilder yaml = new StringBuilder("""
            # Settings for starforge dataset, doctor, train, eval and merge; docs/config.md has every key.
            #
            #   starforge dataset --repo . --config train.yaml
            #   starforge doctor --config train.yaml
            #   starforge train --config train.yaml
            #   starforge merge --config train.yaml
            #
            # The model: nano is built in. A larger one is a folder with config.json and safetensors, a .gguf file, or the
            # name of one that `starforge pull bigcode/starcoder2-3b` fetched or the HF cache has. `scratch` trains a new
            # small model, and dataset a tokenizer for it. Settings of datasets go into a section dataset:, such as
            # dataset: {samples: {span: line}, filters: {exclude: ["*.sql"]}}.

            """);
        RunConfig shown = RunConfig.defaults().with(Keys.DATASET, "dataset");
        String section = "";
        for (Key<?> key : SHOWN) {
            int dot = key.path().indexOf('.');
            if (!key.path().substring(0, dot).equals(section)) {
                section = key.path().substring(0, dot);
                yaml.append(section).append(":\n");
            }
            line(yaml, "  ", key, shown);
            if (key == Keys.CONTEXT) {
                OF_NEW_MODEL.forEach(each -> line(yaml, "  # ", each, shown));
            }
        }
        return yaml.toString();
    }

    private static void line(StringBuilder yaml, String indent, Key<?> key, RunConfig shown) {
        String name = key.path().substring(key.path().indexOf('.') + 1);
        yaml.append("  # ").append(key.doc()).append('\n');
        yaml.append(indent).append(name).append(": ").append(shown.yaml(key)).append('\n');
    }
}
