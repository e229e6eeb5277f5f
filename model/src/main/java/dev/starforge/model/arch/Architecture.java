package dev.starforge.model.arch;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.Model;
import dev.starforge.model.layer.WeightLoader;
import java.util.List;
import java.util.function.BiFunction;

/**
 * What the rest of the program knows of an architecture; each file of this package declares its own.
 *
 * @param modelType {@code model_type} of {@code config.json}
 * @param hfClass the class of HF transformers that {@code architectures} names, or {@link #NO_HF_CLASS}
 * @param loader builds the model of a config and its weights
 * @param loraTargets what {@code auto} means for an adapter: all projections of attention and MLP, but no stacked experts
 */
public record Architecture(
        String modelType,
        String hfClass,
        BiFunction<JsonConfig, WeightLoader, Model> loader,
        List<String> loraTargets) {
    static final String NO_HF_CLASS = "";

    Architecture(
            String modelType,
            String hfClass,
            BiFunction<JsonConfig, WeightLoader, Model> loader,
            String... loraTargets) {
        this(modelType, hfClass, loader, List.of(loraTargets));
    }

    public boolean hasHfClass() {
        return !hfClass.equals(NO_HF_CLASS);
    }
}
