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
 * Defaults of {@code tune} for keys that are not set. The defaults of {@code train} are for models with billions of
 * parameters. Small models need higher learning rates, and on a CPU smaller batches, which give more steps in five
 * minutes.
 */
final class Recipe {
    private static final long SMALL = 100_000_000;

    /**
     * Factor of the learning rate in rounds of new commits. They see few commits; at the full rate these would overwrite
     * what the first round learned from all others.
     */
    static final double NEW_COMMITS_RATE = 0.1;

    private static final double GAPS = 0.8;

    private RunConfig config;
    private final RunConfig asked;

    private Recipe(RunConfig asked) {
        this.asked = asked;
        this.config = asked;
    }

    /**
     * Fills in the keys that are not set.
     *
     * @param context positions of the model
     * @param rate factor of the learning rate: below 1 for an adapter that is trained already
     * @param built settings of the existing dataset, which can only be extended with the same settings
     */
    static RunConfig of(RunConfig asked, long parameters, int context, double rate, Optional<JsonNode> built) {
        Recipe recipe = new Recipe(asked);
        recipe.unlessSet(Keys.CONTEXT, Math.min(context, asked.get(Keys.CONTEXT)));
        if (parameters < SMALL) {
            recipe.unlessSet(Keys.BATCH, 4);
            recipe.unlessSet(Keys.ACCUMULATION, 1);
            recipe.unlessSet(Keys.RATE, 3e-3);
            recipe.unlessSet(Keys.RANK, 32);
            recipe.unlessSet(Keys.ALPHA, 64.0);
            recipe.unlessSet(Keys.DROPOUT, 0.0);
            recipe.fillInAtCursor(built);
        }
        if (rate != 1) {
            recipe.config = recipe.config.with(Keys.RATE, rate * recipe.config.get(Keys.RATE));
        }
        recipe.unlessSet(Keys.EVAL_STEPS, 0);
        recipe.unlessSet(Keys.PATIENCE, 0);
        recipe.unlessSet(Keys.SAVE_LIMIT, 1);
        return recipe.config;
    }

    /**
     * Makes most fill-in-the-middle spans like the requests of editors: from a cursor, mostly to the end of its line. Long
     * random spans teach little about where a prefix ends, and whole lines nothing about cursors inside a line.
     */
    private void fillInAtCursor(Optional<JsonNode> built) {
        unlessSet(
                DatasetKeys.SPAN,
                built.map(settings -> settings.path("samples.span").asString())
                        .map(word -> DatasetConfig.FimUnit.valueOf(word.toUpperCase(Locale.ROOT)))
                        .orElse(DatasetConfig.FimUnit.CURSOR));
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
