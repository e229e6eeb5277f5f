package dev.starforge.serve.pool.config;

import dev.starforge.text.ClosestName;
import dev.starforge.text.config.ConfigException;
import dev.starforge.text.config.Yaml;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.snakeyaml.engine.v2.common.FlowStyle;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import org.snakeyaml.engine.v2.nodes.SequenceNode;

/**
 * Reads {@code pool.yaml}. Errors name file, line, key, expected and actual value. Paths are relative to the file.
 */
public final class PoolFile {
    private static final long MAX_BYTES = 1 << 20;

    private final Path file;
    private final ModelFinder models;

    private PoolFile(Path file, ModelFinder models) {
        this.file = file;
        this.models = models;
    }

    /** Finds a model that is not a file beside the config: the embedded model, or one that was pulled. */
    @FunctionalInterface
    public interface ModelFinder {
        /** The model with a name; empty if there is none on this machine. */
        Optional<Path> find(String name);
    }

    private Path path(String relative) {
        return file.toAbsolutePath().normalize().resolveSibling(relative);
    }

    /** A path relative to the config if it exists, else a model by its name; if there is none, the path, for the error of its first start. */
    private Path modelPath(String given) {
        Path beside = path(given);
        return Files.exists(beside) ? beside : models.find(given).orElse(beside);
    }

    /**
     * Reads a config.
     *
     * @param state default of {@code pool.state}
     * @param models finds models by name
     */
    public static PoolConfig read(Path file, Path state, ModelFinder models) {
        PoolFile reader = new PoolFile(file, models);
        try {
            if (Files.size(file) > MAX_BYTES) {
                throw new ConfigException(file + ": expected at most " + MAX_BYTES + " bytes, got " + Files.size(file));
            }
            Optional<Node> root = Yaml.compose(file.toString(), Files.readString(file));
            return root.map(node -> reader.config(node, state)).orElseGet(() -> PoolConfig.empty(state));
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
    }

    private PoolConfig config(Node node, Path state) {
        Section root = new Section("", node, "pool", "restart", "models", "workers");
        Section pool = root.section("pool", "id", "state", "listen", "api_key_file", "admin_key_file", "local_admin");
        Section restart =
                root.section("restart", "backoff_s", "max_s", "stable_s", "breaker_failures", "breaker_open_s");
        RestartPolicy usual = RestartPolicy.DEFAULT;
        RestartPolicy policy = new RestartPolicy(
                restart.seconds("backoff_s", usual.backoff()),
                restart.seconds("max_s", usual.most()),
                restart.seconds("stable_s", usual.stable()),
                restart.whole("breaker_failures", usual.breakerFailures()),
                restart.seconds("breaker_open_s", usual.breakerOpen()));
        try {
            return new PoolConfig(
                    pool.text("id").orElse("pool"),
                    pool.path("state").orElse(state),
                    pool.text("listen").orElse(PoolConfig.LISTEN),
                    pool.path("api_key_file"),
                    pool.path("admin_key_file"),
                    pool.flag("local_admin"),
                    policy,
                    root.list("models", this::model),
                    root.list("workers", this::worker));
        } catch (IllegalArgumentException e) {
            throw new ConfigException(file + ": " + e.getMessage(), e);
        }
    }

    private ModelEntry model(Node node) {
        Section model = new Section("models", node, "name", "path", "device", "adapters", "autostart", "idle_stop_s");
        Map<String, Path> adapters = new LinkedHashMap<>();
        model.entries("adapters")
                .forEach((name, value) -> adapters.put(name, path(model.scalar("adapters." + name, value))));
        Duration idle = model.seconds("idle_stop_s", Duration.ZERO);
        return new ModelEntry(
                model.require("name"),
                modelPath(model.require("path")),
                model.text("device").orElse(""),
                adapters,
                model.flag("autostart"),
                Optional.of(idle).filter(time -> !time.isZero()));
    }

    private RemoteEntry worker(Node node) {
        Section worker = new Section("workers", node, "uri", "api_key_file");
        try {
            return new RemoteEntry(URI.create(worker.require("uri")), worker.path("api_key_file"));
        } catch (IllegalArgumentException unusable) {
            throw new ConfigException(worker.at() + ": key workers.uri: " + unusable.getMessage(), unusable);
        }
    }

    /** A mapping; unknown keys are errors. */
    private final class Section {
        private final String name;
        private final Node node;
        private final Map<String, Node> values = new LinkedHashMap<>();

        Section(String name, Node node, String... known) {
            this.name = name;
            this.node = node;
            if (!(node instanceof MappingNode mapping)) {
                throw new ConfigException(at() + ": expected keys" + (name.isEmpty() ? "" : " of " + name));
            }
            for (NodeTuple tuple : mapping.getValue()) {
                String key = scalar("a key", tuple.getKeyNode());
                if (known.length > 0 && !List.of(known).contains(key)) {
                    throw new ConfigException(place(tuple.getKeyNode()) + ": key " + full(key) + ": unknown key; "
                            + ClosestName.key(key, List.of(known))
                                    .map(near -> "did you mean " + full(near) + "?")
                                    .orElse("expected one of " + String.join(", ", known)));
                }
                if (values.put(key, tuple.getValueNode()) != null) {
                    throw new ConfigException(place(tuple.getKeyNode()) + ": key " + full(key) + ": duplicate key");
                }
            }
        }

        private String full(String key) {
            return name.isEmpty() ? key : name + "." + key;
        }

        String at() {
            return place(node);
        }

        private String place(Node where) {
            return where.getStartMark()
                    .map(mark -> file + ":" + (mark.getLine() + 1))
                    .orElse(file.toString());
        }

        String scalar(String key, Node value) {
            if (value instanceof ScalarNode scalar) {
                return scalar.getValue();
            }
            throw new ConfigException(place(value) + ": key " + full(key) + ": expected a scalar");
        }

        Optional<String> text(String key) {
            return Optional.ofNullable(values.get(key))
                    .map(value -> scalar(key, value))
                    .filter(value -> !value.isEmpty());
        }

        String require(String key) {
            return text(key).orElseThrow(() -> new ConfigException(at() + ": key " + full(key) + ": is missing"));
        }

        Optional<Path> path(String key) {
            return text(key).map(PoolFile.this::path);
        }

        int whole(String key, int defaultValue) {
            Optional<String> given = text(key);
            given.filter(value -> !value.matches("[0-9]{1,9}") || Integer.parseInt(value) < 1)
                    .ifPresent(value -> refuse(key, "an integer of 1 or more", value));
            return given.map(Integer::parseInt).orElse(defaultValue);
        }

        Duration seconds(String key, Duration defaultValue) {
            Optional<String> given = text(key);
            given.filter(value -> !value.matches("[0-9]{1,9}(\\.[0-9]{1,3})?"))
                    .ifPresent(value -> refuse(key, "seconds, 0 or more", value));
            return given.map(value -> Duration.ofMillis(Math.round(1000 * Double.parseDouble(value))))
                    .orElse(defaultValue);
        }

        boolean flag(String key) {
            String given = text(key).orElse("false");
            if (!given.matches("true|false")) {
                refuse(key, "true or false", given);
            }
            return given.equals("true");
        }

        private void refuse(String key, String expected, String actual) {
            throw new ConfigException(at() + ": key " + full(key) + ": expected " + expected + ", got " + actual);
        }

        Section section(String key, String... known) {
            Node value = values.get(key);
            return value == null
                            || value instanceof ScalarNode scalar
                                    && scalar.getValue().isEmpty()
                    ? new Section(key, new MappingNode(node.getTag(), List.of(), FlowStyle.FLOW), known)
                    : new Section(key, value, known);
        }

        Map<String, Node> entries(String key) {
            return section(key).values;
        }

        <T> List<T> list(String key, Function<Node, T> each) {
            Node value = values.get(key);
            if (value == null) {
                return List.of();
            }
            if (!(value instanceof SequenceNode sequence)) {
                throw new ConfigException(place(value) + ": key " + full(key) + ": expected a list");
            }
            List<T> all = new ArrayList<>();
            sequence.getValue().forEach(item -> all.add(each.apply(item)));
            return all;
        }
    }
}
