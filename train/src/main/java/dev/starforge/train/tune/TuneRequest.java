package dev.starforge.train.tune;

import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.text.config.Key;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * What a call of {@link Tune} asks for, as recorded in its round: the settings that were set and decide the result, and the
 * length. Settings that a later call does not set stay in force.
 *
 * @param settings values in YAML by path
 * @param minutes time for all steps, over all calls for the same commits; empty if the settings define the length of training
 */
record TuneRequest(Map<String, String> settings, OptionalDouble minutes) {
    /** Settings that tune decides itself, and settings that do not change the result. */
    private static final Set<String> LEFT_OUT = paths(
            Keys.MODEL,
            Keys.DATASET,
            Keys.TRAIN,
            Keys.VALIDATION,
            Keys.TEST,
            Keys.OUTPUT,
            Keys.OVERWRITE,
            Keys.SAVE_STEPS,
            Keys.SAVE_LIMIT,
            Keys.LOGGING_STEPS,
            Keys.LOADERS,
            Keys.FORCE,
            Keys.INDEX,
            Keys.MEMORY_LIMIT,
            Keys.THREADS,
            DatasetKeys.TOKENIZER,
            DatasetKeys.THREADS);

    /** Settings of the length; more of them continues the training. */
    private static final Set<String> LENGTH = paths(Keys.EPOCHS, Keys.MAX_STEPS);

    TuneRequest {
        settings = Map.copyOf(settings);
    }

    private static Set<String> paths(Key<?>... keys) {
        return Stream.of(keys).map(Key::path).collect(Collectors.toSet());
    }

    static TuneRequest of(RunConfig config, OptionalDouble minutes) {
        Map<String, String> settings = new TreeMap<>(config.explicit());
        settings.keySet().removeAll(LEFT_OUT);
        return new TuneRequest(settings, minutes);
    }

    static TuneRequest read(JsonNode round) {
        Map<String, String> settings = new TreeMap<>();
        round.path("settings")
                .properties()
                .forEach(each -> settings.put(each.getKey(), each.getValue().asString("")));
        JsonNode minutes = round.path("minutes");
        return new TuneRequest(
                settings, minutes.isNumber() ? OptionalDouble.of(minutes.doubleValue()) : OptionalDouble.empty());
    }

    void write(ObjectNode round) {
        ObjectNode node = round.putObject("settings");
        new TreeMap<>(settings).forEach(node::put);
        minutes.ifPresentOrElse(value -> round.put("minutes", value), () -> round.remove("minutes"));
    }

    /** The changes of settings since an earlier request, other than those of the length, for messages. */
    List<String> changes(TuneRequest before) {
        return differences(before).stream()
                .filter(path -> !LENGTH.contains(path))
                .map(path -> path + ": " + before.shown(path) + " -> " + shown(path))
                .toList();
    }

    private String shown(String path) {
        return settings.getOrDefault(path, "default");
    }

    private List<String> differences(TuneRequest before) {
        Set<String> paths = new TreeSet<>(settings.keySet());
        paths.addAll(before.settings.keySet());
        paths.removeIf(path -> shown(path).equals(before.shown(path)));
        return new ArrayList<>(paths);
    }

    /** Returns true if epochs or steps differ from those of an earlier request. */
    boolean changesLength(TuneRequest before) {
        return differences(before).stream().anyMatch(LENGTH::contains);
    }

    /** Returns true if epochs or steps that differ from an earlier request are all more. */
    boolean raisesLength(TuneRequest before) {
        return differences(before).stream()
                .filter(LENGTH::contains)
                .allMatch(path -> before.length(path) < length(path));
    }

    private long length(String path) {
        return Long.parseLong(settings.getOrDefault(path, "0"));
    }
}
