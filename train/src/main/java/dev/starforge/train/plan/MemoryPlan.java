package dev.starforge.train.plan;

import dev.starforge.model.Model;
import dev.starforge.model.Parameter;
import dev.starforge.model.load.ModelSpec;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.trainer.Trainer;
import dev.starforge.train.trainer.TrainerSettings;
import dev.starforge.train.weights.TrainableModel;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Memory of training in bytes, computed without allocating it: the same forward, backward and update run with shapes
 * only, on the allocator of the real run.
 *
 * @param weights the frozen and trained weights
 * @param trained the trained parameters
 * @param state the optimizer state
 * @param step peak of the tensors of one batch, gradients included
 * @param workspace scratch memory of the largest operation
 * @param sums accumulated gradients of earlier micro-batches
 */
public record MemoryPlan(long weights, long trained, long state, long step, long workspace, long sums) {
    public long total() {
        return weights + trained + state + step + workspace + sums;
    }

    /** Plans a model from its config, on a device like {@code like}. */
    public static MemoryPlan of(ModelSpec blueprint, RunConfig config, int batch, int context, Device like) {
        NullOps shapes = new NullOps(like, Precision.FLOAT32, Fallback.QUIET);
        boolean lora = config.get(Keys.LORA);
        Precision precision = config.precision();
        Map<String, Tensor> parameters = new LinkedHashMap<>();
        Model model;
        long weights = 0;
        if (lora) {
            LoraAdapter adapter =
                    LoraAdapter.create(TrainableModel.lora(config, blueprint.architecture()), 0, shapes.scope());
            model = blueprint.plan(shapes.scope(), precision, config.quantization(), adapter);
            parameters.putAll(adapter.parameters());
            weights = shapes.scope().usedBytes()
                    - parameters.values().stream().mapToLong(Tensor::bytes).sum();
        } else {
            List<Parameter> parts = new ArrayList<>();
            model = blueprint.plan(shapes.scope(), precision, parts);
            parts.forEach(part -> parameters.put(part.names().getFirst(), part.tensor()));
        }
        long trained = parameters.values().stream().mapToLong(Tensor::bytes).sum();
        try (Trainer trainer = new Trainer(
                model,
                parameters,
                Device.of(shapes.scope()),
                precision,
                Fallback.QUIET,
                TrainerSettings.of(config, config.checkpointing()))) {
            NullOps.Plan plan = trainer.plan(batch, context, config.checkpointing());
            return new MemoryPlan(
                    weights,
                    trained,
                    trainer.stateBytes(),
                    plan.tensorBytes(),
                    plan.workspaceBytes(),
                    config.get(Keys.ACCUMULATION) > 1 ? trained : 0);
        }
    }
}
