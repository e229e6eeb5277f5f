package dev.starforge.model.lora;

import dev.starforge.model.arch.Architectures;
import dev.starforge.tensor.ShapeException;
import java.util.List;

/**
 * The configuration of a new adapter.
 *
 * @param targets names of modules, each the last part of a projection's path; {@link #EXPERTS} stands for the stacks of
 *     a mixture of experts
 * @param strict true if every target must be found; otherwise one of them is enough
 * @param rankStabilized scale alpha / sqrt(rank) instead of alpha / rank (Kalajdzievski 2023)
 * @param dora true to train the row norms separately from the directions (DoRA, Liu et al. 2024)
 */
public record LoraConfig(
        int rank,
        double alpha,
        double dropout,
        List<String> targets,
        boolean strict,
        boolean rankStabilized,
        boolean dora) {
    public static final String EXPERTS = "experts";

    public LoraConfig {
        targets = List.copyOf(targets);
        if (rank < 1 || !(alpha > 0) || !(dropout >= 0 && dropout < 1) || targets.isEmpty()) {
            throw new ShapeException("adapter: rank " + rank + ", alpha " + alpha + ", dropout " + dropout
                    + ", targets " + targets + ": expected at least 1, above 0, 0 to below 1, and at least one");
        }
        if (targets.contains(EXPERTS) && (dropout > 0 || dora)) {
            throw new ShapeException(
                    "adapter: updates of stacked experts support neither dropout nor DoRA, as in PEFT");
        }
    }

    /** Returns the targets that {@code auto} selects for an architecture. */
    public static List<String> automatic(String architecture) {
        return Architectures.named(architecture).loraTargets();
    }

    double scale(int rank) {
        return rankStabilized ? alpha / Math.sqrt(rank) : alpha / rank;
    }
}
