package dev.starforge.train;

import dev.starforge.data.Nearest;
import dev.starforge.data.Yaml;
import dev.starforge.model.Quantization;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import org.snakeyaml.engine.v2.common.ScalarStyle;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import org.snakeyaml.engine.v2.nodes.SequenceNode;

/**
 * All settings of a run: from a YAML 1.2 file, changed by single assignments, with defaults for the rest. The file is
 * composed, not loaded, so that every complaint has its line: an unknown key with the nearest known one, a value of the
 * wrong type or out of range with what was expected. Immutable; {@link #with} gives a changed copy.
 */
public final class RunConfig {
    private static final int LONGEST_FILE = 1 << 20;

    private final Map<String, Object> values;
    private final Map<String, String> places;

    private RunConfig(Map<String, Object> values, Map<String, String> places) {
        this.values = values;
        this.places = places;
    }

    /** Nothing but defaults. */
    public static RunConfig defaults() {
        return new RunConfig(new LinkedHashMap<>(), new LinkedHashMap<>());
    }

    /** The settings of a file; paths in it are relative to where the program runs. */
    public static RunConfig read(Path file) {
        RunConfig config = new RunConfig(new LinkedHashMap<>(), new LinkedHashMap<>());
        try (InputStream in = Files.newInputStream(file)) {
            byte[] bytes = in.readNBytes(LONGEST_FILE + 1);
            if (bytes.length > LONGEST_FILE) {
                throw new ConfigException(file + ": expected settings, at most " + LONGEST_FILE + " bytes, got more");
            }
            String text = new String(bytes, StandardCharsets.UTF_8);
            Optional<Node> root = Yaml.compose(file.toString(), text);
            root.ifPresent(node -> config.section(file.toString(), "", node));
        } catch (IOException failure) {
            throw new ConfigException(file + ": cannot be read: " + failure, failure);
        } catch (MarkedYamlEngineException failure) {
            String line = failure.getProblemMark()
                    .map(mark -> ":" + (mark.getLine() + 1))
                    .orElse("");
            throw new ConfigException(file + line + ": is not YAML: " + failure.getProblem(), failure);
        } catch (YamlEngineException failure) {
            throw new ConfigException(file + ": is not YAML: " + failure.getMessage(), failure);
        }
        return config;
    }

    /** With single settings as {@code section.key=value}, the value in YAML. */
    public RunConfig set(List<String> assignments) {
        RunConfig changed = copy();
        for (String assignment : assignments) {
            int equals = assignment.indexOf('=');
            if (equals < 1) {
                throw new ConfigException("--set " + assignment + ": expected section.key=value");
            }
            String place = "--set " + assignment;
            try {
                String text = assignment.substring(equals + 1);
                Object value = Yaml.compose(place, text)
                        .map(node -> unquoted(node) ? plain(text.strip()) : value(node))
                        .orElse("");
                changed.put(place, assignment.substring(0, equals), value);
            } catch (YamlEngineException failure) {
                throw new ConfigException(place + ": is not YAML: " + failure.getMessage(), failure);
            }
        }
        return changed;
    }

    private RunConfig copy() {
        return new RunConfig(new LinkedHashMap<>(values), new LinkedHashMap<>(places));
    }

    private void section(String file, String prefix, Node node) {
        if (!(node instanceof MappingNode mapping)) {
            throw new ConfigException(
                    at(file, node) + ": expected " + (prefix.isEmpty() ? "sections" : "keys of " + prefix));
        }
        Set<String> seen = new HashSet<>();
        for (NodeTuple tuple : mapping.getValue()) {
            String name = String.valueOf(value(tuple.getKeyNode()));
            String path = prefix.isEmpty() ? name : prefix + "." + name;
            if (!seen.add(name)) {
                throw new ConfigException(at(file, tuple.getKeyNode()) + ": key " + path + ": is there twice");
            }
            boolean isKey = known(path).isPresent() || Spellings.of(path).isPresent();
            if (!isKey && tuple.getValueNode() instanceof MappingNode) {
                section(file, path, tuple.getValueNode());
            } else {
                put(at(file, tuple.getKeyNode()), path, value(tuple.getValueNode()));
            }
        }
    }

    private static String at(String file, Node node) {
        return file
                + node.getStartMark().map(mark -> ":" + (mark.getLine() + 1)).orElse("");
    }

    /** YAML takes line breaks and what follows {@code #} out of such a text, which may be a path. */
    private static boolean unquoted(Node node) {
        return node instanceof ScalarNode scalar && scalar.getScalarStyle() == ScalarStyle.PLAIN;
    }

    /** A node as Boolean, Long, Double, String, List or Map; null is the empty text. */
    private static Object value(Node node) {
        return switch (node) {
            case ScalarNode scalar when scalar.getScalarStyle() != ScalarStyle.PLAIN -> scalar.getValue();
            case ScalarNode scalar -> plain(scalar.getValue());
            case SequenceNode sequence ->
                sequence.getValue().stream().map(RunConfig::value).toList();
            case MappingNode mapping -> {
                Map<String, Object> map = new LinkedHashMap<>();
                for (NodeTuple tuple : mapping.getValue()) {
                    map.put(String.valueOf(value(tuple.getKeyNode())), value(tuple.getValueNode()));
                }
                yield map;
            }
            default -> node.toString();
        };
    }

    private static Object plain(String text) {
        return switch (text) {
            case "", "~", "null", "Null", "NULL" -> "";
            case "true", "True", "TRUE" -> true;
            case "false", "False", "FALSE" -> false;
            default -> {
                if (text.matches("[-+]?[0-9]{1,18}")) {
                    yield Long.parseLong(text);
                }
                if (text.matches("[-+]?(\\.[0-9]+|[0-9]+(\\.[0-9]*)?)([eE][-+]?[0-9]+)?")) {
                    yield Double.parseDouble(text);
                }
                yield text;
            }
        };
    }

    private static Optional<Key<?>> known(String path) {
        return Keys.ALL.stream().filter(key -> key.path().equals(path)).findFirst();
    }

    private void put(String place, String path, Object value) {
        Optional<Key<?>> key = known(path);
        if (key.isPresent()) {
            accept(place, path, key.get(), value);
            return;
        }
        Spellings.Answer answer = Spellings.of(path)
                .orElseThrow(() ->
                        new ConfigException(place + ": unknown key " + path + "; the nearest one is " + nearest(path)));
        switch (answer) {
            case Spellings.Answer.Alias(String ours, Map<String, Object> words) ->
                accept(place, path, known(ours).orElseThrow(), words.getOrDefault(String.valueOf(value), value));
            case Spellings.Answer.Only(List<String> allowed, String reason) -> {
                if (!allowed.contains(String.valueOf(value))) {
                    throw new ConfigException(place + ": key " + path + ": " + value + " is refused: " + reason);
                }
            }
            case Spellings.Answer.Never(String reason) ->
                throw new ConfigException(place + ": key " + path + ": is refused: " + reason);
            case Spellings.Answer.Adds() -> {
                if (!(value instanceof Long more && more >= 0 && more <= 1 << 20)) {
                    throw new ConfigException(
                            place + ": key " + path + ": expected whole number 0.." + (1 << 20) + ", got " + value);
                }
                accept(place, path, Keys.CONTEXT, (long) get(Keys.CONTEXT) + more);
            }
        }
    }

    private void accept(String place, String path, Key<?> key, Object value) {
        try {
            Object accepted = value.equals("") && !(key.missing() instanceof String)
                    ? key.missing()
                    : key.accept().apply(value);
            values.put(key.path(), accepted);
            places.put(key.path(), place);
        } catch (Key.Refusal refusal) {
            throw new ConfigException(
                    place + ": key " + path + ": expected " + key.kind() + ", got "
                            + (value.equals("") ? "nothing" : value),
                    refusal);
        }
    }

    private static String nearest(String path) {
        return Nearest.key(path, Keys.ALL.stream().map(Key::path).toList());
    }

    @SuppressWarnings("unchecked") // only values that the key accepted are put under its path
    public <T> T get(Key<T> key) {
        return (T) values.getOrDefault(key.path(), key.missing());
    }

    /** The value under a path, as text; for tables and tests. */
    public String show(String path) {
        Key<?> key = known(path).orElseThrow(() -> new ConfigException("unknown key " + path));
        return String.valueOf(get(key));
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

    /** Whether somebody set it. */
    boolean isSet(Key<?> key) {
        return values.containsKey(key.path());
    }

    /** An error about the value of a key, with the place it comes from. */
    public ConfigException wrong(Key<?> key, String message) {
        return new ConfigException(
                places.getOrDefault(key.path(), "default") + ": key " + key.path() + ": " + get(key) + ": " + message);
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

    /** How effective settings keep numbers: what is frozen as stored or as {@code dtype} says, all else in float32. */
    public Precision precision() {
        if (!get(Keys.LORA)) {
            return Precision.FLOAT32;
        }
        DType dtype = switch (get(Keys.DTYPE)) {
            case "bf16" -> DType.BF16;
            case "fp16" -> DType.F16;
            default -> DType.F32;
        };
        return Precision.FLOAT32.withStorage(dtype).withWeightsAsStored();
    }

    /** These settings with what another run was fitted to a machine by: batch, accumulation, context, checkpointing. */
    public RunConfig fittedAs(RunConfig other) {
        return with(Keys.BATCH, other.get(Keys.BATCH))
                .with(Keys.ACCUMULATION, other.get(Keys.ACCUMULATION))
                .with(Keys.CONTEXT, other.get(Keys.CONTEXT))
                .with(Keys.CHECKPOINTING, other.get(Keys.CHECKPOINTING));
    }

    <T> RunConfig with(Key<T> key, T value) {
        RunConfig changed = copy();
        changed.values.put(key.path(), Objects.requireNonNull(value));
        return changed;
    }

    /** Every setting with its value, as a file that reads back to the same. */
    public String yaml() {
        StringBuilder yaml = new StringBuilder();
        String section = "";
        for (Key<?> key : Keys.ALL) {
            int dot = key.path().indexOf('.');
            if (!key.path().substring(0, dot).equals(section)) {
                section = key.path().substring(0, dot);
                yaml.append(section).append(":\n");
            }
            yaml.append("  ")
                    .append(key.path().substring(dot + 1))
                    .append(": ")
                    .append(yamlOf(key))
                    .append('\n');
        }
        return yaml.toString();
    }

    /** The value of a key as it stands in a file. */
    String yamlOf(Key<?> key) {
        return key.kind().startsWith("one of") ? get(key).toString() : text(get(key));
    }

    private static String text(Object value) {
        return switch (value) {
            case String text -> Yaml.quoted(text);
            case List<?> list -> {
                List<String> items = new ArrayList<>();
                list.forEach(item -> items.add(text(item)));
                yield "[" + String.join(", ", items) + "]";
            }
            case Map<?, ?> map -> {
                List<String> items = new ArrayList<>();
                map.forEach((name, item) -> items.add(text(String.valueOf(name)) + ": " + text(item)));
                yield "{" + String.join(", ", items) + "}";
            }
            default -> String.valueOf(value);
        };
    }
}
