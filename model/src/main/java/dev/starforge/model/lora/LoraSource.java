package dev.starforge.model.lora;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.ModelException;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.file.WeightSource;
import dev.starforge.model.layer.WeightLoader;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** The source of the updates of an adapter: PEFT's files, or a configuration and a seed. */
sealed interface LoraSource extends AutoCloseable {
    /** What PEFT adds to the path of an expert stack for the update of gate and up. */
    String GATE_UP = ".base_layer";

    boolean has(String path);

    /** Returns true if a stack of experts has an update: of down if {@code outer}, else of gate and up. */
    boolean hasStack(String path, boolean outer);

    int rank(String path);

    float scale(String path, int rank);

    double alpha();

    boolean dora();

    /** Loads a parameter to the device; {@code start} initializes the values of a new one. */
    Tensor load(String name, Spec spec, Scope scope, Initializer start);

    void requireAllUsed();

    /** Returns the stored tensors that were not loaded. */
    Set<String> unused();

    @Override
    void close();

    /** Initializes the values of a new parameter. */
    interface Initializer {
        float[] values(long seed, int index);
    }

    /** Returns true if a path ends in the module name {@code target}. */
    static boolean matches(String path, String target) {
        return path.equals(target) || path.endsWith("." + target);
    }

    /** PEFT's files. */
    final class PeftFiles implements LoraSource {
        private static final String ANY = ".*\\.";

        private final JsonConfig config;
        private final SafetensorsFile file;
        private final Set<String> unused = new TreeSet<>();

        PeftFiles(JsonConfig config, SafetensorsFile file) {
            this.config = config;
            this.file = file;
            unused.addAll(file.tensors().keySet());
        }

        /** Returns the paths of the updated modules; the whole name of a tensor that is neither A nor B. */
        Set<String> paths() {
            return file.tensors().keySet().stream()
                    .map(name -> name.replaceFirst(
                            "^" + Pattern.quote(LoraAdapter.PREFIX) + "(.*)\\.lora_[AB]\\.weight$", "$1"))
                    .collect(Collectors.toCollection(TreeSet::new));
        }

        /** Returns the rank of the update with one of the {@link #paths}. */
        int rankOf(String path) {
            return rank(
                    path.endsWith(GATE_UP)
                            ? path.substring(0, path.length() - GATE_UP.length()) + ".gate_up_proj"
                            : path.endsWith("." + LoraConfig.EXPERTS) ? path + ".down_proj" : path);
        }

        /** Returns the rank of a module without a pattern. */
        int defaultRank() {
            return config.size("r");
        }

        @Override
        public boolean has(String path) {
            return file.has(LoraAdapter.PREFIX + path + LoraAdapter.A)
                    || file.has(LoraAdapter.PREFIX + path + LoraAdapter.B);
        }

        @Override
        public boolean hasStack(String path, boolean outer) {
            return has(outer ? path : path + GATE_UP);
        }

        @Override
        public int rank(String path) {
            return (int) pattern("rank_pattern", path, config.size("r"));
        }

        @Override
        public float scale(String path, int rank) {
            double alpha = pattern("alpha_pattern", path, config.number("lora_alpha"));
            return (float) (config.bool("use_rslora", false) ? alpha / Math.sqrt(rank) : alpha / rank);
        }

        @Override
        public double alpha() {
            return config.number("lora_alpha");
        }

        @Override
        public boolean dora() {
            return config.bool("use_dora", false);
        }

        /**
         * Returns the value of the pattern for a path. Of PEFT's patterns only names and {@code .*\.name} are
         * supported.
         */
        private double pattern(String key, String path, double missing) {
            if (config.isUnset(key)) {
                return missing;
            }
            JsonConfig patterns = config.section(key);
            for (String pattern : patterns.keys()) {
                String name = pattern.startsWith(ANY) ? pattern.substring(ANY.length()) : pattern;
                if (!name.matches("[A-Za-z0-9_.]+")) {
                    throw config.invalid(key, "names of modules, with or without " + ANY + " before them");
                }
                if (matches(path, name)) {
                    return patterns.number(pattern);
                }
            }
            return missing;
        }

        @Override
        public Tensor load(String name, Spec spec, Scope scope, Initializer start) {
            Tensor tensor = WeightLoader.load(WeightSource.of(file), LoraAdapter.PREFIX + name, spec, scope);
            unused.remove(LoraAdapter.PREFIX + name);
            return tensor;
        }

        @Override
        public void requireAllUsed() {
            if (!unused.isEmpty()) {
                throw new ModelException(
                        file.path(),
                        "no projection of this model uses "
                                + String.join(", ", unused.stream().limit(4).toList()));
            }
        }

        @Override
        public Set<String> unused() {
            return Collections.unmodifiableSet(unused);
        }

        @Override
        public void close() {
            file.close();
        }
    }

    /** A new adapter from a configuration and a seed. */
    final class NewLora implements LoraSource {
        private final LoraConfig settings;
        private final long seed;
        private final Set<String> unused;
        private final Set<String> paths = new TreeSet<>();
        private int loaded;

        NewLora(LoraConfig settings, long seed) {
            this.settings = settings;
            this.seed = seed;
            this.unused = new TreeSet<>(settings.targets());
        }

        @Override
        public boolean has(String path) {
            paths.add(path.substring(path.lastIndexOf('.') + 1));
            boolean any = false;
            for (String target : settings.targets()) {
                if (matches(path, target)) {
                    unused.remove(target);
                    any = true;
                }
            }
            return any;
        }

        @Override
        public boolean hasStack(String path, boolean outer) {
            paths.add(LoraConfig.EXPERTS);
            unused.remove(LoraConfig.EXPERTS);
            return settings.targets().contains(LoraConfig.EXPERTS);
        }

        @Override
        public int rank(String path) {
            return settings.rank();
        }

        @Override
        public float scale(String path, int rank) {
            return (float) settings.scale(rank);
        }

        @Override
        public double alpha() {
            return settings.alpha();
        }

        @Override
        public boolean dora() {
            return settings.dora();
        }

        @Override
        public Tensor load(String name, Spec spec, Scope scope, Initializer start) {
            Tensor tensor = scope.allocate(spec);
            if (scope.device().holdsValues()) {
                scope.device().write(tensor, start.values(seed, loaded));
            }
            loaded++;
            return tensor;
        }

        @Override
        public void requireAllUsed() {
            if (settings.strict() ? !unused.isEmpty() : loaded == 0) {
                throw new ModelException(
                        Path.of("lora_target_modules"),
                        String.join(", ", unused) + ": no projection of this model has that name; it has "
                                + String.join(", ", paths));
            }
        }

        @Override
        public Set<String> unused() {
            return Set.of();
        }

        @Override
        public void close() {}
    }
}
