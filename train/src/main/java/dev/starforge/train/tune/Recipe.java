package dev.starforge.train.tune;

import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.text.config.Key;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.util.Locale;
import java.util.Optional;
import tools.jackson.databind.JsonNode;

/**
 * The defaults of {@code tune} for keys that are not set. Those of {@code train} are for models of billions of parameters; small
 * models learn at higher rates, and on a CPU at smaller batches, with more steps in five minutes.
 */
final class Recipe {
    private static final long SMALL = 100_000_000;

    /** Later rounds see a few commits; at the full rate those few take away what the first round learned of all others. */
    private static final double LATER = 0.1;

    private static final double GAPS = 0.8;

    private RunConfig config;
    private final RunConfig asked;

    private Recipe(RunConfig asked) {
        this.asked = asked;
        this.config = asked;
    }

    /**
     * Fills in what is not set.
     *
     * @param context positions of the model
     * @param later whether earlier rounds have trained the adapter
     * @param built the settings of a dataset that is there: it grows only with the same
     */
    static RunConfig of(RunConfig asked, long parameters, int context, boolean later, Optional<JsonNode> built) {
        Recipe recipe = new Recipe(asked);
        recipe.unlessSet(Keys.CONTEXT, Math.min(context, asked.get(Keys.CONTEXT)));
        if (parameters < SMALL) {
            recipe.unlessSet(Keys.BATCH, 4);
            recipe.unlessSet(Keys.ACCUMULATION, 1);
            recipe.unlessSet(Keys.RATE, 3e-3);
            recipe.unlessSet(Keys.RANK, 32);
            recipe.unlessSet(Keys.ALPHA, 64.0);
            recipe.unlessSet(Keys.DROPOUT, 0.0);
            recipe.fillInFewLines(built);
        }
        if (later) {
            recipe.unlessSet(Keys.RATE, LATER * recipe.config.get(Keys.RATE));
        }
        recipe.unlessSet(Keys.EVAL_STEPS, 0);
        recipe.unlessSet(Keys.PATIENCE, 0);
        recipe.unlessSet(Keys.SAVE_LIMIT, 1);
        return recipe.config;
    }

    /** Most files have a gap of a few lines, as editors ask for: long gaps at random teach little about where a prefix ends. */
    private void fillInFewLines(Optional<JsonNode> built) {
        unlessSet(
                DatasetKeys.SPAN,
                built.map(settings -> settings.path("samples.span").asString())
                        .map(word -> DatasetConfig.FimUnit.valueOf(word.toUpperCase(Locale.ROOT)))
                        .orElse(DatasetConfig.FimUnit.FEW_LINES));
        unlessSet(
                DatasetKeys.FIM_DOCUMENTS,
                built.map(settings -> settings.path("samples.fim_documents").asDouble())
                        .orElse(GAPS));
        unlessSet(
                DatasetKeys.FIM_FILES,
                built.map(settings -> settings.path("samples.fim_files").asDouble())
                        .orElse(GAPS));
        unlessSet(Keys.FIM_RATE, 0.0);
    }

    private <T> void unlessSet(Key<T> key, T value) {
        if (!asked.isSet(key)) {
            config = config.with(key, value);
        }
    }
}
