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
import java.util.Map;
import java.util.OptionalInt;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * The settings of all commands from a repository to a merged model, in one file: those of runs, and those of
 * datasets in the section {@code dataset}. Immutable; {@link #with} gives a changed copy.
 */
public final class RunConfig {
    public static final Schema SCHEMA =
            Schema.of(Stream.concat(Keys.ALL.stream(), DatasetKeys.ALL.stream()).toList(), ForeignConfigKeys.BY_NAME);

    private final Settings settings;

    private RunConfig(Settings settings) {
        this.settings = settings;
    }

    /** Returns the default settings. */
    public static RunConfig defaults() {
        return new RunConfig(Settings.of(SCHEMA));
    }

    /** Returns the default settings, for files and assignments that may omit the section {@code dataset}. */
    public static RunConfig datasetDefaults() {
        return new RunConfig(Settings.of(SCHEMA.withShorthand(DatasetKeys.SECTION)));
    }

    /** Reads a settings file; paths in it are relative to the working directory. */
    public static RunConfig read(Path file) {
        return defaults().with(file);
    }

    /** Adds the settings of a file. */
    public RunConfig with(Path file) {
        return new RunConfig(settings.read(file));
    }

    /** Adds settings in the form {@code section.key=value}, with the value in YAML. */
    public RunConfig set(List<String> assignments) {
        return new RunConfig(settings.set(assignments));
    }

    public <T> RunConfig with(Key<T> key, T value) {
        return new RunConfig(settings.with(key, value));
    }

    public <T> T get(Key<T> key) {
        return settings.get(key);
    }

    /** Returns true if the key was set explicitly. */
    public boolean isSet(Key<?> key) {
        return settings.isSet(key);
    }

    /** Returns the settings that were set explicitly, in YAML by path. */
    public SortedMap<String, String> explicit() {
        SortedMap<String, String> all = new TreeMap<>();
        Stream.concat(Keys.ALL.stream(), DatasetKeys.ALL.stream())
                .filter(this::isSet)
                .forEach(key -> all.put(key.path(), settings.yaml(key)));
        return all;
    }

    /** Adds settings, in YAML by path, except those that were set explicitly. */
    public RunConfig withDefaults(Map<String, String> others) {
        Map<String, String> own = explicit();
        return set(others.entrySet().stream()
                .filter(each -> !own.containsKey(each.getKey()))
                .map(each -> each.getKey() + "=" + each.getValue())
                .toList());
    }

    /** Returns the value at a path as text, for tables and tests. */
    public String show(String path) {
        return settings.show(path);
    }

    /** Creates an error about the value of a key, with the location of the value. */
    public ConfigException wrong(Key<?> key, String message) {
        return settings.wrong(key, message);
    }

    /** Returns all settings as YAML. Reading it gives the same settings. */
    public String yaml() {
        return settings.yaml();
    }

    /** Returns the value of a key as YAML. */
    String yaml(Key<?> key) {
        return settings.yaml(key);
    }

    /** Returns the underlying settings, for callers with other keys. */
    public Settings settings() {
        return settings;
    }

    /** Returns the dataset settings; the context length defaults to that of the model. */
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

    /** Output folder of the run. */
    public Path output() {
        return Path.of(get(Keys.OUTPUT));
    }

    /** The model as set: a path or a name. */
    public String model() {
        return get(Keys.MODEL);
    }

    /** The name of the device, or {@code auto} if it is not set. */
    public String device() {
        return get(Keys.FORCE).equals("null") ? "auto" : get(Keys.FORCE);
    }

    public int deviceIndex() {
        return get(Keys.INDEX);
    }

    public int threads() {
        return get(Keys.THREADS);
    }

    /** Memory limit in bytes; 0 if there is none. */
    public long memoryLimit() {
        return (long) (get(Keys.MEMORY_LIMIT) * (1L << 30));
    }

    /** Steps between log lines if the output is not a terminal. */
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
     * The precision of effective settings: frozen weights as stored or as {@code dtype}, trained weights in float32,
     * activations and their gradients as {@code mixed_precision}.
     */
    public Precision precision() {
        Precision mixed = Precision.of(type(get(Keys.MIXED))).withStorage(DType.F32);
        return get(Keys.LORA) ? mixed.withStorage(type(get(Keys.DTYPE))).withWeightsAsStored() : mixed;
    }

    /** The element type of a setting; float32 for all values but {@code bf16} and {@code fp16}. */
    public static DType type(String setting) {
        return switch (setting) {
            case "bf16" -> DType.BF16;
            case "fp16" -> DType.F16;
            default -> DType.F32;
        };
    }

    /** The checkpointing mode; OFF while {@code auto} is not resolved. */
    public Checkpointing checkpointing() {
        return switch (get(Keys.CHECKPOINTING)) {
            case "true" -> Checkpointing.FULL;
            case "selective" -> Checkpointing.SELECTIVE;
            default -> Checkpointing.OFF;
        };
    }

    /** Copies the settings that were fitted to memory: batch, accumulation, context, checkpointing. */
    public RunConfig fittedAs(RunConfig other) {
        return with(Keys.BATCH, other.get(Keys.BATCH))
                .with(Keys.ACCUMULATION, other.get(Keys.ACCUMULATION))
                .with(Keys.CONTEXT, other.get(Keys.CONTEXT))
                .with(Keys.CHECKPOINTING, other.get(Keys.CHECKPOINTING));
    }
}
