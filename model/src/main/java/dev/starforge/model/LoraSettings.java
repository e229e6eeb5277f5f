package dev.starforge.model;

import dev.starforge.tensor.ShapeException;
import java.util.List;
import java.util.Map;

/**
 * What a new adapter is to be.
 *
 * @param targets names of modules, each the last part of a projection's path; {@link #EXPERTS} stands for the stacks of a
 *     mixture of experts
 * @param strict whether every target must be found; otherwise one of them is enough
 * @param rankStabilized scale alpha / sqrt(rank) instead of alpha / rank (Kalajdzievski 2023)
 * @param dora whether the lengths of the rows are trained apart from their directions (Liu et al. 2024)
 */
public record LoraSettings(
        int rank,
        double alpha,
        double dropout,
        List<String> targets,
        boolean strict,
        boolean rankStabilized,
        boolean dora) {
    public static final String EXPERTS = "experts";

    private static final List<String> GATED =
            List.of("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj");

    private static final Map<String, List<String>> AUTO = Map.ofEntries(
            Map.entry("starcoder2", List.of("q_proj", "k_proj", "v_proj", "o_proj", "c_fc", "c_proj")),
            Map.entry("llama", GATED),
            Map.entry("mistral", GATED),
            Map.entry("qwen2", GATED),
            Map.entry("qwen3", GATED),
            Map.entry("qwen2_moe", GATED),
            Map.entry("qwen3_moe", GATED),
            Map.entry("mixtral", List.of("q_proj", "k_proj", "v_proj", "o_proj")),
            Map.entry("phi", List.of("q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2")),
            Map.entry("phi3", List.of("qkv_proj", "o_proj", "gate_up_proj", "down_proj")),
            Map.entry("qwen", List.of("c_attn", "c_proj", "w1", "w2")),
            Map.entry("deepseek_v2", deepSeek()),
            Map.entry("deepseek_v3", deepSeek()));

    public LoraSettings {
        targets = List.copyOf(targets);
        if (rank < 1 || !(alpha > 0) || !(dropout >= 0 && dropout < 1) || targets.isEmpty()) {
            throw new ShapeException("adapter: rank " + rank + ", alpha " + alpha + ", dropout " + dropout
                    + ", targets " + targets + ": expected at least 1, above 0, 0 to below 1, and at least one");
        }
        if (targets.contains(EXPERTS) && (dropout > 0 || dora)) {
            throw new ShapeException("adapter: updates of stacked experts take neither dropout nor DoRA, as in PEFT");
        }
    }

    private static List<String> deepSeek() {
        return List.of("q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj");
    }

    /**
     * What {@code auto} means for an architecture: all projections of attention and MLP, but no stacked experts. Of DeepSeek's
     * mixtures attention alone: PEFT 0.21 takes every target that is called as the experts' matrices are for those, so that it
     * could not load an update of the shared experts or of a dense layer.
     */
    public static List<String> automatic(String architecture) {
        List<String> targets = AUTO.get(architecture);
        if (targets == null) {
            throw new ShapeException("adapter: no targets are known for " + architecture + "; name them");
        }
        return targets;
    }

    double scale(int rank) {
        return rankStabilized ? alpha / Math.sqrt(rank) : alpha / rank;
    }
}
