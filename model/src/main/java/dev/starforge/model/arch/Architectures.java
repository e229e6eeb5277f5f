package dev.starforge.model.arch;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.Model;
import dev.starforge.model.layer.WeightLoader;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;

/** The architectures there are. A new one is a file of this package and a line here. */
public final class Architectures {
    private static final Map<String, Architecture> ALL = byModelType(List.of(
            DeepSeek.ARCHITECTURE,
            DeepSeekV2.ARCHITECTURE,
            DeepSeekV3.ARCHITECTURE,
            Llama.ARCHITECTURE,
            Mistral.ARCHITECTURE,
            Mixtral.ARCHITECTURE,
            Phi.ARCHITECTURE,
            Phi3.ARCHITECTURE,
            Qwen.ARCHITECTURE,
            Qwen2.ARCHITECTURE,
            Qwen2Moe.ARCHITECTURE,
            Qwen3.ARCHITECTURE,
            Qwen3Moe.ARCHITECTURE,
            StarCoder2.ARCHITECTURE));

    private Architectures() {}

    private static Map<String, Architecture> byModelType(List<Architecture> all) {
        return new TreeMap<>(all.stream().collect(Collectors.toMap(Architecture::modelType, Function.identity())));
    }

    public static boolean isKnown(String modelType) {
        return ALL.containsKey(modelType);
    }

    /** What an error expects. */
    public static String known() {
        return "one of " + String.join(", ", ALL.keySet());
    }

    /** The architecture that a config names. */
    public static Architecture of(JsonConfig config) {
        Architecture named = ALL.get(config.string("model_type"));
        if (named == null) {
            throw config.invalid("model_type", known());
        }
        return named;
    }

    /** The architecture of a model that was opened. */
    public static Architecture named(String modelType) {
        Architecture named = ALL.get(modelType);
        if (named == null) {
            throw new IllegalArgumentException("architecture " + modelType + ": expected " + known());
        }
        return named;
    }

    public static Model build(JsonConfig config, WeightLoader weights) {
        return of(config).loader().apply(config, weights);
    }
}
