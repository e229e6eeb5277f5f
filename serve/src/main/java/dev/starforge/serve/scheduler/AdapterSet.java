package dev.starforge.serve.scheduler;

import dev.starforge.model.ModelException;
import dev.starforge.model.generate.Engine;
import dev.starforge.model.lora.AdapterTable;
import dev.starforge.serve.engine.AdapterCard;
import dev.starforge.serve.engine.EngineException;
import java.nio.file.Path;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;

/**
 * LoRA adapters by name. Any thread looks names up; only the engine's thread loads and unloads. An unloaded adapter keeps its slot
 * until no sequence uses it.
 */
final class AdapterSet {
    private record NamedAdapter(Engine.AdapterSlot adapter, Instant loaded) {}

    private final Optional<AdapterTable> table;
    private final InstantSource clock;
    private final Map<String, NamedAdapter> named = new ConcurrentHashMap<>();
    private final List<AdapterTable.Loaded> leaving = new ArrayList<>();

    AdapterSet(Optional<AdapterTable> table, InstantSource clock) {
        this.table = table;
        this.clock = clock;
    }

    Engine.AdapterSlot find(String name) {
        if (name.isEmpty()) {
            return Engine.AdapterSlot.BASE;
        }
        NamedAdapter found = named.get(name);
        if (found == null) {
            throw new EngineException(
                    EngineException.EngineErrorKind.UNKNOWN_ADAPTER, "no adapter " + name + " is loaded");
        }
        return found.adapter;
    }

    List<AdapterCard> cards() {
        return named.entrySet().stream()
                .map(each -> new AdapterCard(each.getKey(), each.getValue().loaded))
                .toList();
    }

    void load(String name, Path folder) {
        if (named.containsKey(name)) {
            throw new EngineException(
                    EngineException.EngineErrorKind.ADAPTER_EXISTS, "an adapter " + name + " is loaded");
        }
        if (leaving.stream().anyMatch(each -> each.name().equals(name))) {
            throw new EngineException(
                    EngineException.EngineErrorKind.ADAPTER_EXISTS,
                    "the adapter " + name + " was unloaded, but running requests still use it; try again later");
        }
        AdapterTable slots = table.orElseThrow(() -> new EngineException(
                EngineException.EngineErrorKind.ADAPTER_UNUSABLE,
                "this worker has no room for adapters; start it with --max-adapters above 0"));
        try {
            AdapterTable.Loaded loaded = slots.load(name, folder);
            named.put(name, new NamedAdapter(new Engine.AdapterSlot(loaded.index(), loaded.hash()), clock.instant()));
        } catch (ModelException e) {
            throw new EngineException(EngineException.EngineErrorKind.ADAPTER_UNUSABLE, withoutPath(e, folder));
        }
    }

    /** Clients learn the name of a file of the adapter, but not where the adapter is. */
    private static String withoutPath(ModelException e, Path folder) {
        return String.valueOf(e.getMessage())
                .replace(folder + folder.getFileSystem().getSeparator(), "")
                .replace(folder.toString(), "the adapter");
    }

    void unload(String name) {
        if (named.remove(name) == null) {
            throw new EngineException(
                    EngineException.EngineErrorKind.UNKNOWN_ADAPTER, "no adapter " + name + " is loaded");
        }
        table.ifPresent(slots -> leaving.add(slots.loaded(name)));
    }

    /** Returns true if the adapter is still loaded; it can be unloaded after {@link #find}. */
    boolean holds(Engine.AdapterSlot adapter) {
        return adapter.equals(Engine.AdapterSlot.BASE)
                || table.stream()
                        .flatMap(slots -> slots.loaded().stream())
                        .anyMatch(each ->
                                each.index() == adapter.index() && each.hash().equals(adapter.contentHash()));
    }

    /** Frees the slots of unloaded adapters that are no longer used. */
    void sweep(Predicate<Engine.AdapterSlot> used) {
        leaving.removeIf(each -> {
            boolean unused = !used.test(new Engine.AdapterSlot(each.index(), each.hash()));
            if (unused) {
                table.ifPresent(slots -> slots.unload(each.name()));
            }
            return unused;
        });
    }
}
