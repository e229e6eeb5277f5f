package dev.starforge.text.config;

import dev.starforge.text.ClosestName;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * All keys of a config file, and rules for the keys of other programs. All commands read the same file with one schema,
 * so each command also checks the settings of the others.
 */
public final class Schema {
    private final Map<String, Key<?>> keys;
    private final Map<String, Named> aliases;
    private final Map<String, ForeignKeyRule> foreign;
    private final String shorthand;

    /** A key found by an alias. */
    record Named(Key<?> key, Map<String, Object> words) {}

    private Schema(Map<String, Key<?>> keys, Map<String, ForeignKeyRule> foreign, String shorthand) {
        this.keys = keys;
        this.foreign = foreign;
        this.shorthand = shorthand;
        aliases = new LinkedHashMap<>();
        for (Key<?> key : keys.values()) {
            for (Key.Alias alias : key.aliases()) {
                if (foreign.containsKey(alias.name())
                        || aliases.put(alias.name(), new Named(key, alias.words())) != null) {
                    throw new IllegalArgumentException("alias " + alias.name() + ": is there twice");
                }
            }
        }
    }

    public static Schema of(List<Key<?>> keys, Map<String, ForeignKeyRule> foreign) {
        Map<String, Key<?>> byPath = new LinkedHashMap<>();
        for (Key<?> key : keys) {
            if (byPath.put(key.path(), key) != null) {
                throw new IllegalArgumentException("key " + key.path() + ": is there twice");
            }
        }
        return new Schema(byPath, foreign, "");
    }

    /**
     * Returns a schema in which the keys of one section may appear without the section. If such a name is itself a key,
     * that key takes precedence.
     */
    public Schema withShorthand(String section) {
        return new Schema(keys, foreign, section + ".");
    }

    List<Key<?>> keys() {
        return List.copyOf(keys.values());
    }

    /** Returns the key at a path. */
    Optional<Key<?>> key(String path) {
        Key<?> key = keys.get(path);
        return Optional.ofNullable(key == null && !shorthand.isEmpty() ? keys.get(shorthand + path) : key);
    }

    /** Returns the key that has the last name of a path as an alias. */
    Optional<Named> alias(String path) {
        return Optional.ofNullable(aliases.get(last(path)));
    }

    Optional<ForeignKeyRule> foreign(String path) {
        return Optional.ofNullable(foreign.get(last(path)));
    }

    boolean knows(String path) {
        return key(path).isPresent() || alias(path).isPresent() || foreign(path).isPresent();
    }

    boolean hasSection(String path) {
        return keys.keySet().stream()
                .anyMatch(key -> key.startsWith(path + ".") || key.startsWith(shorthand + path + "."));
    }

    /** Returns the closest path, if one is close. Among equally close ones, prefers the shorthand section. */
    Optional<String> nearest(String path) {
        List<String> paths = new ArrayList<>();
        if (!shorthand.isEmpty()) {
            keys.keySet().stream().filter(key -> key.startsWith(shorthand)).forEach(paths::add);
        }
        paths.addAll(keys.keySet());
        return ClosestName.key(path, paths);
    }

    private static String last(String path) {
        return path.substring(path.lastIndexOf('.') + 1);
    }

    /** Returns the documentation of all settings and aliases as Markdown tables. */
    public String markdown() {
        StringBuilder page = new StringBuilder();
        String section = "";
        for (Key<?> key : keys.values()) {
            String own = key.path().substring(0, key.path().indexOf('.'));
            if (!own.equals(section)) {
                section = own;
                page.append("## ").append(section).append("\n\n");
                page.append("| key | values | default | description |\n|---|---|---|---|\n");
            }
            String missing = key.form() == Key.Form.FITTED ? "auto" : Key.shown(key.missing());
            page.append("| `" + key.path() + "` | " + key.kind() + " | `" + missing + "` | " + key.doc() + " |\n");
            if (isLastOfSection(key)) {
                page.append('\n');
            }
        }
        page.append(
                "## Other spellings\n\nSettings of other programs, accepted in any section, and how they are handled.\n\n");
        page.append("| name | answer |\n|---|---|\n");
        aliases.forEach(
                (name, named) -> page.append("| `" + name + "` | is `" + named.key.path() + "`" + words(named.words))
                        .append(" |\n"));
        foreign.forEach((name, answer) -> page.append("| `" + name + "` | " + words(answer) + " |\n"));
        return page.toString();
    }

    private boolean isLastOfSection(Key<?> key) {
        List<Key<?>> all = keys();
        int next = all.indexOf(key) + 1;
        String section = key.path().substring(0, key.path().indexOf('.') + 1);
        return next == all.size() || !all.get(next).path().startsWith(section);
    }

    private static String words(Map<String, Object> words) {
        StringBuilder text = new StringBuilder();
        new TreeMap<>(words)
                .forEach((theirs, ours) ->
                        text.append(text.isEmpty() ? "; " : ", ").append("`" + theirs + "` is `" + ours + "`"));
        return text.toString();
    }

    private static String words(ForeignKeyRule answer) {
        return switch (answer) {
            case ForeignKeyRule.AllowedValues(List<String> values, String reason) ->
                "`" + String.join("`, `", values) + "` is the only accepted value: " + reason;
            case ForeignKeyRule.Unsupported(String reason) -> "refused: " + reason;
            case ForeignKeyRule.AddedTo(Key<Integer> key, String reason) ->
                "is added to `" + key.path() + "`: " + reason;
        };
    }
}
