package dev.starforge.train.plan;

import dev.starforge.model.Quantization;
import dev.starforge.model.load.ModelSpec;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Plain;
import dev.starforge.text.config.Key;
import dev.starforge.train.TrainException;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.weights.ScratchModel;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Adapts a config to the machine and lists each changed key with the reason. One config serves every device; every change
 * has a row.
 */
public final class Adaptation {
    private static final double USABLE = 0.9;
    private static final int SMALLEST_CONTEXT = 128;

    /** Memory that the JVM itself uses on devices with unified memory. */
    private static final long JVM_BYTES = 300L << 20;

    private final MachineFacts machine;
    private final RunConfig asked;
    private final List<Row> rows = new ArrayList<>();
    private RunConfig config;

    /** One key: the configured value, the effective value, and the reason. */
    public record Row(String key, String configured, String effective, String why) {}

    private Adaptation(RunConfig config, MachineFacts machine) {
        this.config = config;
        this.asked = config;
        this.machine = machine;
    }

    /**
     * Adapts settings to a machine.
     *
     * @param blueprint spec of the model, for fitting batch and context into memory; without it they do not change
     * @param like a device to plan with
     */
    public static Adaptation of(RunConfig config, MachineFacts machine, Optional<ModelSpec> blueprint, Device like) {
        Adaptation adaptation = fixed(config, machine, blueprint, like);
        blueprint.ifPresent(model -> adaptation.memory(model, like));
        return adaptation;
    }

    /** Adapts settings without fitting them to memory, for runs that are resumed or have no model spec. */
    public static Adaptation fixed(RunConfig config, MachineFacts machine, Optional<ModelSpec> blueprint, Device like) {
        Adaptation adaptation = new Adaptation(config, machine);
        adaptation.model();
        adaptation.base(blueprint, like);
        adaptation.precision();
        adaptation.attention();
        adaptation.checkpointing();
        return adaptation;
    }

    /**
     * Adapts settings for evaluation, without fitting them to memory. The base is quantized as the settings specify, by
     * default as the adapter was trained.
     */
    public static Adaptation forEvaluation(
            RunConfig config,
            MachineFacts machine,
            Optional<ModelSpec> blueprint,
            Device like,
            Quantization trainedOn) {
        boolean asked = config.isSet(Keys.FOUR_BIT) || config.isSet(Keys.EIGHT_BIT);
        return fixed(asked ? config : config.quantizedAs(trainedOn), machine, blueprint, like);
    }

    public RunConfig config() {
        return config;
    }

    public List<Row> rows() {
        return List.copyOf(rows);
    }

    /** Memory to plan with, in bytes. */
    public long budget() {
        double limit = config.get(Keys.MEMORY_LIMIT) * (1L << 30);
        long free = machine.freeBytes() - (machine.kind().equals("cuda") ? 0 : JVM_BYTES);
        return limit > 0 ? (long) Math.min(limit, free) : free;
    }

    /** Precision of the run. */
    public Precision precisionOfRun() {
        return config.precision();
    }

    /** Which operations may run as their expansion. */
    public Fallback fallback(Consumer<String> log) {
        return config.get(Keys.ATTENTION).equals("plain")
                ? new Fallback(true, Set.of(Fused.Attention.class, Fused.AttentionGrad.class), log)
                : new Fallback(true, Set.of(), log);
    }

    private <T> void change(Key<T> key, T value, String why) {
        T before = config.get(key);
        if (!before.equals(value)) {
            boolean fitted = key.form() == Key.Form.FITTED && !asked.isSet(key);
            rows.add(new Row(key.path(), fitted ? "auto" : String.valueOf(before), String.valueOf(value), why));
            config = config.with(key, value);
        }
    }

    /** Adds a row for a setting that does not change, with the reason. */
    private void keep(Key<?> key, String why) {
        String value = String.valueOf(config.get(key));
        rows.add(new Row(key.path(), value, value, why));
    }

    private void model() {
        if (config.get(Keys.MODEL).equals(ScratchModel.NAME)) {
            if (config.isSet(Keys.LORA) && config.get(Keys.LORA)) {
                throw config.wrong(Keys.LORA, "a new model has no trained weights for an adapter to update");
            }
            change(Keys.LORA, false, "a new model: all weights are trained");
        }
        if (!config.get(Keys.LORA)) {
            String why = "all weights are trained in float32";
            withoutQuantization(why, why + "; quantized weights cannot be trained");
            change(Keys.DTYPE, "fp32", why);
            return;
        }
        if (config.get(Keys.FOUR_BIT) && config.get(Keys.EIGHT_BIT)) {
            change(Keys.FOUR_BIT, false, "load_in_8bit overrides it");
        }
        if (config.get(Keys.FOUR_BIT)
                && machine.kind().equals("metal")
                && config.get(Keys.METAL_STORAGE).equals("int8")) {
            String why = "on Metal load_in_4bit selects int8 groups; see quantization.metal_storage";
            change(Keys.FOUR_BIT, false, why);
            change(Keys.EIGHT_BIT, true, why);
        }
        if (config.get(Keys.DTYPE).equals("auto")) {
            change(
                    Keys.DTYPE,
                    machine.computes().contains(DType.BF16) ? "bf16" : "fp16",
                    "half the memory, and " + declared());
        }
    }

    /** Turns default quantization off; rejects quantization that was set explicitly. */
    private void withoutQuantization(String why, String refusal) {
        for (Key<Boolean> key : List.of(Keys.FOUR_BIT, Keys.EIGHT_BIT)) {
            if (config.get(key) && asked.isSet(key)) {
                throw config.wrong(key, refusal + "; set it to false");
            }
            change(key, false, why);
        }
    }

    /** Chooses the quantization of the base: that of its file, limited by what the device computes, and the setting. */
    private void base(Optional<ModelSpec> blueprint, Device like) {
        Set<DType> stored = blueprint.map(ModelSpec::quantized).orElse(Set.of());
        Quantization quantization = config.quantization();
        if (config.get(Keys.LORA) && !stored.isEmpty()) {
            stored(stored, quantization, like);
            return;
        }
        if (quantization.equals(Quantization.NONE)) {
            return;
        }
        if (!computesWith(quantization.storage(), like)) {
            String why = "this build has no kernels for weights of " + quantization.storage() + " on " + like.name();
            withoutQuantization(why, why);
            return;
        }
        keep(
                config.get(Keys.EIGHT_BIT) ? Keys.EIGHT_BIT : Keys.FOUR_BIT,
                "the matrices of the blocks are " + quantization + ", other weights " + config.get(Keys.DTYPE));
    }

    /**
     * Chooses the quantization of a base that is quantized in its file. The stored weights are used as they are, unless the
     * settings ask for fewer bits: then they are quantized again.
     */
    private void stored(Set<DType> stored, Quantization quantization, Device like) {
        String types = stored.stream()
                .map(type -> String.format(Locale.ROOT, "%s, %.1f bits per weight", type, Quantization.bits(type)))
                .collect(Collectors.joining("; "));
        boolean asks = Stream.of(Keys.FOUR_BIT, Keys.EIGHT_BIT).anyMatch(key -> asked.isSet(key) && asked.get(key));
        if (asks && stored.stream().allMatch(quantization::isSmallerThan)) {
            if (!computesWith(quantization.storage(), like)) {
                throw config.wrong(
                        config.get(Keys.EIGHT_BIT) ? Keys.EIGHT_BIT : Keys.FOUR_BIT,
                        "this build has no kernels for weights of " + quantization.storage() + " on " + like.name());
            }
            keep(
                    config.get(Keys.EIGHT_BIT) ? Keys.EIGHT_BIT : Keys.FOUR_BIT,
                    "the base is quantized in its file (" + types + "), with more bits than " + quantization
                            + ": the matrices of the blocks are dequantized and quantized again");
            return;
        }
        String why = "the base is quantized already (" + types + "): the stored weights are used as they are";
        change(Keys.FOUR_BIT, false, why);
        change(Keys.EIGHT_BIT, false, why);
    }

    /** Returns true if the device supports forward and backward with a weight type. */
    private static boolean computesWith(DType type, Device like) {
        long width = type.blockElements();
        Spec weight = new Spec(type, Shape.of(width, width));
        return like.supports(new Plain.MatMul(false, true), Spec.f32(1, width), weight) == Support.NATIVE
                && like.supports(new Plain.MatMul(false, false), Spec.f32(1, width), weight) == Support.NATIVE;
    }

    /** The compute types that the device declares. */
    private String declared() {
        return machine.kind() + " computes in "
                + machine.computes().stream().map(DType::name).collect(Collectors.joining(", "));
    }

    /**
     * Chooses the compute type: the device's fastest by default. A type that was set explicitly is used, or rejected.
     */
    private void precision() {
        if (machine.kind().equals("metal") && !config.get(Keys.METAL_PRECISION).equals("auto")) {
            change(Keys.MIXED, config.get(Keys.METAL_PRECISION), "device.metal_precision");
        }
        if (config.get(Keys.MIXED).equals("auto")) {
            DType fastest = machine.computes().getFirst();
            change(
                    Keys.MIXED,
                    fastest == DType.F32 ? "no" : name(fastest),
                    declared() + ": " + (fastest == DType.F32 ? "float32 is fastest" : "the first is fastest"));
            return;
        }
        if (!machine.computes().contains(RunConfig.type(config.get(Keys.MIXED)))) {
            throw config.wrong(Keys.MIXED, declared() + "; auto selects the fastest of these");
        }
    }

    private static String name(DType type) {
        return type == DType.BF16 ? "bf16" : "fp16";
    }

    private void attention() {
        if (config.get(Keys.ATTENTION).equals("auto")) {
            rows.add(new Row(Keys.ATTENTION.path(), "auto", machine.attention(), machine.attentionReason()));
            return;
        }
        if (config.get(Keys.ATTENTION).equals("flash") && !machine.attention().equals("flash")) {
            throw config.wrong(
                    Keys.ATTENTION,
                    machine.name() + " has no such kernel (" + machine.attentionReason() + "); auto takes "
                            + machine.attention());
        }
        keep(Keys.ATTENTION, "as set");
    }

    private void checkpointing() {
        if (machine.kind().equals("metal") && config.get(Keys.CHECKPOINTING).equals("auto")) {
            change(Keys.CHECKPOINTING, "true", "memory is shared with the system");
        }
    }

    /**
     * Halves the batch, and then the context, until the plan fits. On a GPU, doubles a default batch while it fits. The
     * number of sequences per step does not change.
     */
    private void memory(ModelSpec blueprint, Device like) {
        long budget = (long) (USABLE * budget());
        int batch = config.get(Keys.BATCH);
        int context = config.get(Keys.CONTEXT);
        MemoryPlan plan = plan(blueprint, batch, context, like);
        if (config.get(Keys.CHECKPOINTING).equals("auto")) {
            String why = "fits without";
            for (String more : List.of("selective", "true")) {
                if (plan.total() > budget) {
                    config = config.with(Keys.CHECKPOINTING, more);
                    plan = plan(blueprint, batch, context, like);
                    why = "does not fit with less recomputation";
                }
            }
            String least = config.get(Keys.CHECKPOINTING);
            config = config.with(Keys.CHECKPOINTING, "auto");
            change(Keys.CHECKPOINTING, least.equals("auto") ? "false" : least, why);
        }
        while (plan.total() > budget && (batch > 1 || context > SMALLEST_CONTEXT)) {
            if (batch > 1) {
                batch = (batch + 1) / 2;
            } else {
                context /= 2;
            }
            plan = plan(blueprint, batch, context, like);
        }
        if (growsBatch()) {
            int sequences = config.get(Keys.BATCH) * config.get(Keys.ACCUMULATION);
            while (sequences % (2 * batch) == 0
                    && plan(blueprint, 2 * batch, context, like).total() <= budget) {
                batch *= 2;
                plan = plan(blueprint, batch, context, like);
            }
        }
        String why = String.format(
                Locale.ROOT, "plan %.2f GiB of %.2f GiB available", plan.total() / 0x1p30, budget / 0x1p30);
        if (plan.total() > budget) {
            throw new TrainException(machine.name() + ": one sequence of " + context + " tokens needs "
                    + (plan.total() >> 20) + " MiB, " + (budget >> 20) + " MiB are available; use a smaller model, "
                    + "quantization.load_in_4bit, a lower lora_rank or a device with more memory");
        }
        int asked = config.get(Keys.BATCH);
        if (batch != asked) {
            change(
                    Keys.ACCUMULATION,
                    (config.get(Keys.ACCUMULATION) * asked + batch - 1) / batch,
                    "the number of sequences per step does not change");
        }
        change(Keys.BATCH, batch, why);
        change(Keys.CONTEXT, context, why);
        if (batch == asked) {
            keep(Keys.BATCH, why);
        }
        config = config.with(Keys.BATCH, batch).with(Keys.CONTEXT, context); // replaces auto by a number
    }

    /**
     * Larger batches use a GPU better. They do not speed up a CPU, where they would take memory from other processes.
     */
    private boolean growsBatch() {
        return !asked.isSet(Keys.BATCH) && List.of("cuda", "metal").contains(machine.kind());
    }

    private MemoryPlan plan(ModelSpec blueprint, int batch, int context, Device like) {
        return MemoryPlan.of(blueprint, config, batch, context, like);
    }
}
