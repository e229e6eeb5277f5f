package dev.starforge.train.config;

import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.model.Quantization;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.text.config.ConfigException;
import dev.starforge.text.config.Key;
import dev.starforge.text.config.Schema;
import dev.starforge.text.config.Settings;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalInt;
import java.util.stream.Stream;

/**
 * The settings of the whole way from a repository to a merged model, which one file holds: those of runs, and those of
 * datasets in the section {@code dataset}. Immutable; {@link #with} gives a changed copy.
 */
public final class RunConfig {
    public static final Schema SCHEMA =
            Schema.of(Stream.concat(Keys.ALL.stream(), DatasetKeys.ALL.stream()).toList(), ForeignConfigKeys.BY_NAME);

    private final Settings settings;

    private RunConfig(Settings settings) {
        this.settings = settings;
    }

    /** Nothing but defaults. */
    public static RunConfig defaults() {
        return new RunConfig(Settings.of(SCHEMA));
    }

    /** The same, for files and assignments that may name settings of a dataset without their section. */
    public static RunConfig datasetDefaults() {
        return new RunConfig(Settings.of(SCHEMA.withShorthand(DatasetKeys.SECTION)));
    }

    /** The settings of a file; paths in it are relative to where the program runs. */
    public static RunConfig read(Path file) {
        return defaults().with(file);
    }

    /** With the settings of a file. */
    public RunConfig with(Path file) {
        return new RunConfig(settings.read(file));
    }

    /** With single settings as {@code section.key=value}, the value in YAML. */
    public RunConfig set(List<String> assignments) {
        return new RunConfig(settings.set(assignments));
    }

    public <T> RunConfig with(Key<T> key, T value) {
        return new RunConfig(settings.with(key, value));
    }

    public <T> T get(Key<T> key) {
        return settings.get(key);
    }

    /** Whether somebody set it. */
    public boolean isSet(Key<?> key) {
        return settings.isSet(key);
    }

    /** The value under a path, as text; for tables and tests. */
    public String show(String path) {
        return settings.show(path);
    }

    /** An error about the value of a key, with the place it comes from. */
    public ConfigException wrong(Key<?> key, String message) {
        return settings.wrong(key, message);
    }

    /** Every setting with its value, as a file that reads back to the same. */
    public String yaml() {
        return settings.yaml();
    }

    /** The value of a key as it stands in a file. */
    String yaml(Key<?> key) {
        return settings.yaml(key);
    }

    /** Everything, for those who have keys of their own. */
    public Settings settings() {
        return settings;
    }

    /** Those of a dataset: documents are as long as the model that they are for can read, unless something else is set. */
    public Settings datasetSettings() {
        if (get(DatasetKeys.CONTEXT_LENGTH).isPresent()) {
            return settings;
        }
        int context = get(Keys.CONTEXT);
        if (context < DatasetKeys.SHORTEST_CONTEXT) {
            throw wrong(
                    Keys.CONTEXT,
                    "documents of a dataset have at least " + DatasetKeys.SHORTEST_CONTEXT + " tokens; set "
                            + DatasetKeys.CONTEXT_LENGTH.path());
        }
        return settings.with(DatasetKeys.CONTEXT_LENGTH, OptionalInt.of(context));
    }

    /** Where the run is written. */
    public Path output() {
        return Path.of(get(Keys.OUTPUT));
    }

    /** The model's name as it is set. */
    public String model() {
        return get(Keys.MODEL);
    }

    /** The device's name as it is set; {@code auto} when it is not. */
    public String device() {
        return get(Keys.FORCE).equals("null") ? "auto" : get(Keys.FORCE);
    }

    public int deviceIndex() {
        return get(Keys.INDEX);
    }

    public int threads() {
        return get(Keys.THREADS);
    }

    /** Bytes that may be taken; 0 when there is no limit. */
    public long memoryLimit() {
        return (long) (get(Keys.MEMORY_LIMIT) * (1L << 30));
    }

    /** Steps between lines where there is no terminal. */
    public int loggingSteps() {
        return get(Keys.LOGGING_STEPS);
    }

    /** How frozen projections are quantized while they are loaded. */
    public Quantization quantization() {
        if (!get(Keys.LORA)) {
            return Quantization.NONE;
        }
        if (get(Keys.EIGHT_BIT)) {
            if (get(Keys.GROUP) % DType.Q8_0.blockElements() != 0) {
                throw wrong(Keys.GROUP, "expected a multiple of " + DType.Q8_0.blockElements());
            }
            return new Quantization.Int8(get(Keys.GROUP));
        }
        return get(Keys.FOUR_BIT) ? new Quantization.Nf4(get(Keys.DOUBLE)) : Quantization.NONE;
    }

    /** These settings with another quantization of the base. */
    public RunConfig quantizedAs(Quantization quantization) {
        RunConfig plain = with(Keys.FOUR_BIT, false).with(Keys.EIGHT_BIT, false);
        return switch (quantization) {
            case Quantization.None none -> plain;
            case Quantization.Nf4(boolean doubled) ->
                plain.with(Keys.FOUR_BIT, true).with(Keys.DOUBLE, doubled);
            case Quantization.Int8(int group) ->
                plain.with(Keys.EIGHT_BIT, true).with(Keys.GROUP, group);
        };
    }

    /**
     * How effective settings keep numbers: what is frozen as stored or as {@code dtype} says, what is trained in float32,
     * activations and their gradients as {@code mixed_precision} says.
     */
    public Precision precision() {
        Precision mixed = Precision.of(type(get(Keys.MIXED))).withStorage(DType.F32);
        return get(Keys.LORA) ? mixed.withStorage(type(get(Keys.DTYPE))).withWeightsAsStored() : mixed;
    }

    /** The element type that a setting names; float32 for what is not of 16 bits. */
    public static DType type(String setting) {
        return switch (setting) {
            case "bf16" -> DType.BF16;
            case "fp16" -> DType.F16;
            default -> DType.F32;
        };
    }

    /** What is kept of a block for the backward pass; everything where that is not decided yet. */
    public Checkpointing checkpointing() {
        return switch (get(Keys.CHECKPOINTING)) {
            case "true" -> Checkpointing.FULL;
            case "selective" -> Checkpointing.SELECTIVE;
            default -> Checkpointing.OFF;
        };
    }

    /** These settings with what another run was fitted to a machine by: batch, accumulation, context, checkpointing. */
    public RunConfig fittedAs(RunConfig other) {
        return with(Keys.BATCH, other.get(Keys.BATCH))
                .with(Keys.ACCUMULATION, other.get(Keys.ACCUMULATION))
                .with(Keys.CONTEXT, other.get(Keys.CONTEXT))
                .with(Keys.CHECKPOINTING, other.get(Keys.CHECKPOINTING));
    }
}
