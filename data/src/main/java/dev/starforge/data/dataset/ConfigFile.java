package dev.starforge.data.dataset;

import dev.starforge.data.Nearest;
import dev.starforge.data.Yaml;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Stream;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import org.snakeyaml.engine.v2.nodes.SequenceNode;

/**
 * The settings of a dataset: defaults, what a YAML file says, and what the command line says, later ones winning. A key is
 * known or an error that names the nearest one; a value is checked where it is read, so the error names its line.
 */
public final class ConfigFile {
    /** Every key and its default. */
    private static final Map<String, String> DEFAULTS = new LinkedHashMap<>();

    static {
        DEFAULTS.put("name", "");
        DEFAULTS.put("seed", "42");
        DEFAULTS.put("threads", "0");
        DEFAULTS.put("history.max_blob_bytes", "8388608");
        DEFAULTS.put("history.copies", "false");
        DEFAULTS.put("history.skip_missing", "false");
        DEFAULTS.put("redact.people", "true");
        DEFAULTS.put("filters.max_lines", "100000");
        DEFAULTS.put("filters.mean_line", "100");
        DEFAULTS.put("filters.longest_line", "1000");
        DEFAULTS.put("filters.min_alphabetic", "0.25");
        DEFAULTS.put("filters.max_encoded_run", "1024");
        DEFAULTS.put("filters.max_encoded_share", "0.5");
        DEFAULTS.put("filters.data_lines", "512");
        DEFAULTS.put("filters.max_secrets", "5");
        DEFAULTS.put("filters.include", "");
        DEFAULTS.put("filters.exclude", "");
        DEFAULTS.put("filters.licenses", "any");
        DEFAULTS.put("duplicates.similarity", "0.7");
        DEFAULTS.put("duplicates.min_words", "10");
        DEFAULTS.put("splits.train", "85");
        DEFAULTS.put("splits.validation", "10");
        DEFAULTS.put("splits.test", "5");
        DEFAULTS.put("splits.window_words", "30");
        DEFAULTS.put("splits.boilerplate_files", "3");
        DEFAULTS.put("samples.files", "true");
        DEFAULTS.put("samples.commits", "true");
        DEFAULTS.put("samples.chunks", "true");
        DEFAULTS.put("samples.context_length", "2048");
        DEFAULTS.put("samples.metadata", "0.5");
        DEFAULTS.put("samples.fim_documents", "0.5");
        DEFAULTS.put("samples.fim_files", "0.5");
        DEFAULTS.put("samples.spm", "0");
        DEFAULTS.put("samples.span", "character");
        DEFAULTS.put("samples.order", "random");
        DEFAULTS.put("samples.whole_base", "0.2");
        DEFAULTS.put("samples.base_lines", "32");
        DEFAULTS.put("samples.signatures", "16");
        DEFAULTS.put("samples.family", "auto");
        DEFAULTS.put("export", "none");
    }

    private static final Set<String> LISTS = Set.of("filters.include", "filters.exclude");

    /** No path has it. */
    private static final String SEPARATOR = "\0";

    /** A value and where it was written: the file or flag, and the line. */
    private record Value(String text, Path source, String place) {}

    private final Map<String, Value> values = new LinkedHashMap<>();

    public ConfigFile() {
        DEFAULTS.forEach((key, text) -> values.put(key, new Value(text, Path.of("default"), "")));
    }

    public static Map<String, String> defaults() {
        return Map.copyOf(DEFAULTS);
    }

    /** Takes the values of a file. */
    public ConfigFile read(Path file) {
        try {
            Yaml.compose(file.toString(), Files.readString(file)).ifPresent(root -> take(file, "", root));
            return this;
        } catch (MarkedYamlEngineException failure) {
            String line = failure.getProblemMark()
                    .map(mark -> "line " + (mark.getLine() + 1) + ": ")
                    .orElse("");
            throw new SettingException(file, line + "is not YAML: " + failure.getProblem(), failure);
        } catch (YamlEngineException failure) {
            throw new SettingException(file, "is not YAML: " + failure.getMessage(), failure);
        } catch (CharacterCodingException failure) {
            throw new SettingException(file, "is not YAML: expected UTF-8", failure);
        } catch (IOException failure) {
            throw new SettingException(file, "cannot be read: " + failure, failure);
        }
    }

    private void take(Path file, String prefix, Node node) {
        if (!(node instanceof MappingNode mapping)) {
            throw new SettingException(file, place(node) + prefix + ": expected keys and values");
        }
        for (NodeTuple entry : mapping.getValue()) {
            if (!(entry.getKeyNode() instanceof ScalarNode name)) {
                throw new SettingException(file, place(entry.getKeyNode()) + "expected the name of a key");
            }
            String key = prefix + name.getValue();
            Node value = entry.getValueNode();
            boolean section = DEFAULTS.keySet().stream().anyMatch(known -> known.startsWith(key + "."));
            if (section) {
                take(file, key + ".", value);
            } else if (!DEFAULTS.containsKey(key)) {
                throw new SettingException(file, place(entry.getKeyNode()) + unknown(key));
            } else if (value instanceof ScalarNode scalar) {
                values.put(key, new Value(scalar.getValue(), file, place(value)));
            } else if (value instanceof SequenceNode sequence && LISTS.contains(key)) {
                List<String> items = new ArrayList<>();
                for (Node item : sequence.getValue()) {
                    if (!(item instanceof ScalarNode scalar)) {
                        throw new SettingException(file, place(item) + key + ": expected texts");
                    }
                    items.add(scalar.getValue());
                }
                values.put(key, new Value(String.join(SEPARATOR, items), file, place(value)));
            } else {
                throw new SettingException(file, place(value) + key + ": expected one value");
            }
        }
    }

    private static String place(Node node) {
        return node.getStartMark()
                .map(mark -> "line " + (mark.getLine() + 1) + ": ")
                .orElse("");
    }

    /** Takes one value from the command line. */
    public ConfigFile set(String key, String text) {
        if (!DEFAULTS.containsKey(key)) {
            throw new IllegalArgumentException(unknown(key));
        }
        values.put(key, new Value(LISTS.contains(key) ? text.replace(",", SEPARATOR) : text, Path.of("--set"), ""));
        return this;
    }

    private static String unknown(String key) {
        return "there is no key " + key + "; the nearest is " + Nearest.key(key, DEFAULTS.keySet());
    }

    /** The settings for a repository and a folder. */
    public DatasetConfig config(Path repository, Path out, String revision, String since) {
        int threads = whole("threads", 0, 1024);
        String own = value("name").text();
        Path folder = repository.toAbsolutePath().normalize().getFileName();
        String name = own.isEmpty()
                ? (folder == null ? "repository" : folder.toString().replaceAll("\\.git$", ""))
                : own;
        try {
            return new DatasetConfig(
                    repository,
                    out,
                    revision,
                    since,
                    name,
                    number("seed", Long.MIN_VALUE, Long.MAX_VALUE),
                    threads == 0 ? Runtime.getRuntime().availableProcessors() : threads,
                    whole("history.max_blob_bytes", 1, 1 << 28),
                    flag("history.copies"),
                    flag("history.skip_missing"),
                    flag("redact.people"),
                    new DatasetConfig.Filters(
                            whole("filters.max_lines", 1, Integer.MAX_VALUE),
                            whole("filters.mean_line", 1, Integer.MAX_VALUE),
                            whole("filters.longest_line", 1, Integer.MAX_VALUE),
                            share("filters.min_alphabetic"),
                            whole("filters.max_encoded_run", 1, Integer.MAX_VALUE),
                            share("filters.max_encoded_share"),
                            whole("filters.data_lines", 1, Integer.MAX_VALUE),
                            whole("filters.max_secrets", 0, Integer.MAX_VALUE),
                            list("filters.include"),
                            list("filters.exclude"),
                            choice("filters.licenses", "any", "permissive").equals("permissive")),
                    new DatasetConfig.Duplicates(
                            share("duplicates.similarity"), whole("duplicates.min_words", 1, Integer.MAX_VALUE)),
                    new DatasetConfig.Shares(
                            real("splits.train", 1e6),
                            real("splits.validation", 1e6),
                            real("splits.test", 1e6),
                            whole("splits.window_words", 5, 10_000),
                            whole("splits.boilerplate_files", 2, Integer.MAX_VALUE)),
                    new DatasetConfig.Samples(
                            flag("samples.files"),
                            flag("samples.commits"),
                            flag("samples.chunks"),
                            whole("samples.context_length", 64, 1 << 24),
                            share("samples.metadata"),
                            share("samples.fim_documents"),
                            share("samples.fim_files"),
                            share("samples.spm"),
                            DatasetConfig.Span.valueOf(upper("samples.span", "character", "line", "node")),
                            DatasetConfig.Order.valueOf(upper("samples.order", "random", "dependency")),
                            share("samples.whole_base"),
                            whole("samples.base_lines", 0, 10_000),
                            whole("samples.signatures", 0, 1000),
                            choice(
                                    "samples.family",
                                    "auto",
                                    "starcoder2",
                                    "starcoder1",
                                    "qwen",
                                    "deepseek",
                                    "codellama",
                                    "plain")),
                    DatasetConfig.Export.valueOf(upper("export", "none", "sequences", "enhanced", "both")));
        } catch (IllegalArgumentException wrong) {
            throw new SettingException(repository, String.valueOf(wrong.getMessage()), wrong);
        }
    }

    /** Every key has a default, so that only one that does not exist has no value. */
    private Value value(String key) {
        return Objects.requireNonNull(values.get(key), key);
    }

    private SettingException wrong(String key, String expected) {
        Value value = value(key);
        return new SettingException(
                value.source(), value.place() + key + ": expected " + expected + ", got " + value.text());
    }

    private long number(String key, long least, long most) {
        try {
            long number = Long.parseLong(value(key).text());
            if (number >= least && number <= most) {
                return number;
            }
        } catch (NumberFormatException notOne) {
            throw wrong(key, "a whole number");
        }
        throw wrong(key, "a whole number from " + least + " to " + most);
    }

    private int whole(String key, int least, int most) {
        return (int) number(key, least, most);
    }

    private double real(String key, double most) {
        try {
            double number = Double.parseDouble(value(key).text());
            if (number >= 0 && number <= most) {
                return number;
            }
        } catch (NumberFormatException notOne) {
            throw wrong(key, "a number");
        }
        throw wrong(key, "a number from 0 to " + most);
    }

    private double share(String key) {
        return real(key, 1);
    }

    private boolean flag(String key) {
        return choice(key, "true", "false").equals("true");
    }

    private String choice(String key, String... allowed) {
        String text = value(key).text();
        if (Stream.of(allowed).noneMatch(text::equals)) {
            throw wrong(key, String.join(" or ", allowed));
        }
        return text;
    }

    private String upper(String key, String... allowed) {
        return choice(key, allowed).toUpperCase(Locale.ROOT);
    }

    private List<String> list(String key) {
        String text = value(key).text();
        return text.isEmpty() ? List.of() : List.of(text.split(SEPARATOR));
    }
}
