package dev.starforge.model.lora;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.starforge.model.ModelException;
import dev.starforge.model.layer.Adapter;
import dev.starforge.model.layer.ExpertStack;
import dev.starforge.model.layer.Projection;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.codec.BlockFormat;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.DigestOutputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;

/**
 * A table of slots for PEFT adapters of one loaded model, so that each sequence of a batch can have its own adapter
 * (S-LoRA, Sheng et al. 2023). The number of slots, the maximum rank and the target projections are fixed before the
 * model is loaded. The tables are allocated with its weights and never move, so captured steps and memory plans stay
 * valid while adapters are loaded and unloaded. Each slot takes the memory of an adapter of the maximum rank.
 *
 * <p>An adapter is read and checked completely before its slot is written, and other slots are not touched: after a
 * failed load the table is unchanged, and sequences with other adapters continue. The caller must not unload an adapter
 * that a running sequence uses. Not thread-safe.
 */
public final class AdapterTable {
    /** Modules without per-token adapters: their input does not have one row per token of the batch. */
    private static final Set<String> NOT_BY_TOKEN = Set.of("lm_head", "kv_b_proj");

    private final Capacity capacity;
    private final Scope scope;
    private final DType type;
    private final List<Target> targets = new ArrayList<>();
    private final Set<String> missing;
    private final List<Optional<Loaded>> places = new ArrayList<>();

    /** Returns the {@code auto} targets of an architecture that support per-token adapters. */
    public static List<String> targets(String architecture) {
        return LoraConfig.automatic(architecture).stream()
                .filter(target -> !NOT_BY_TOKEN.contains(target))
                .toList();
    }

    /**
     * Returns true if a table for the {@code auto} targets of an architecture can hold an adapter at the rank {@code r} of
     * its config. Reads the config and the names of the tensors only.
     *
     * @throws ModelException if the adapter cannot be read
     */
    public static boolean canHold(Path folder, String architecture) {
        List<String> targets = targets(architecture);
        try (LoraSource.PeftFiles files = LoraAdapter.files(folder)) {
            return !targets.isEmpty()
                    && misfit(files, folder, new Capacity(1, files.defaultRank(), targets, false))
                            .isEmpty();
        }
    }

    /** Returns why no table of a capacity can hold an adapter, whatever its model; empty if one can. */
    private static Optional<AdapterException> misfit(LoraSource.PeftFiles files, Path folder, Capacity capacity) {
        if (files.dora()) {
            return Optional.of(new AdapterException(
                    AdapterException.Reason.VARIANT,
                    folder,
                    "use_dora: a table supports plain LoRA only; merge a DoRA adapter into the model"));
        }
        List<String> others = files.paths().stream()
                .filter(path -> capacity.targets.stream().noneMatch(target -> LoraSource.matches(module(path), target)))
                .toList();
        if (!others.isEmpty()) {
            return Optional.of(notPlannedFor(others, folder, capacity));
        }
        return files.paths().stream()
                .filter(path -> files.rankOf(path) > capacity.rank)
                .findFirst()
                .map(path -> new AdapterException(
                        AdapterException.Reason.RANK,
                        folder,
                        path + " has rank " + files.rankOf(path) + ", expected at most " + capacity.rank
                                + ", which the table was planned for"));
    }

    private static AdapterException notPlannedFor(Collection<String> names, Path folder, Capacity capacity) {
        return new AdapterException(
                AdapterException.Reason.TARGETS,
                folder,
                "updates " + String.join(", ", names.stream().limit(4).toList())
                        + ", expected only what the table was planned for: " + capacity.targets);
    }

    /** Returns the path of a module; an expert stack has two updates, and one of them has a path of its own. */
    private static String module(String path) {
        return path.endsWith(LoraSource.GATE_UP)
                ? path.substring(0, path.length() - LoraSource.GATE_UP.length())
                : path;
    }

    /**
     * The capacity of a table.
     *
     * @param rank the maximum rank
     * @param targets names of modules as in {@link LoraConfig}; an adapter may update a subset
     * @param strict true if the model must have every target; otherwise one of them is enough
     */
    public record Capacity(int adapters, int rank, List<String> targets, boolean strict) {
        public Capacity {
            targets = List.copyOf(targets);
            if (adapters < 1 || rank < 1 || targets.isEmpty()) {
                throw new ShapeException("adapter table: " + adapters + " adapters of rank " + rank + " for " + targets
                        + ": expected at least one of each");
            }
            targets.stream().filter(NOT_BY_TOKEN::contains).findFirst().ifPresent(target -> {
                throw new ShapeException("adapter table: " + target
                        + " does not support per-token adapters, expected targets" + " other than "
                        + new TreeSet<>(NOT_BY_TOKEN) + "; merge such an adapter into the model");
            });
        }
    }

    /**
     * A loaded adapter.
     *
     * @param index the adapter index for batches
     * @param hash SHA-256 of its two files; part of the key of data that depends on the adapter, such as cached
     *     prefixes
     */
    public record Loaded(String name, int index, String hash) {}

    /**
     * The tables of one projection, or of the matrices of an expert stack that share an update.
     *
     * @param experts 0 for a projection
     * @param a [experts,] [adapters, rank, in]
     * @param bs one per matrix: [experts,] [adapters, out, rank]
     */
    private record Target(
            String path, int experts, boolean outer, int in, int out, Tensor a, List<Tensor> bs, Tensor scales) {}

    /** Creates a table with tensors in {@code scope}, in the compute type of {@code precision}. */
    public AdapterTable(Capacity capacity, Scope scope, Precision precision) {
        this.capacity = capacity;
        this.scope = scope;
        type = precision.compute();
        missing = new TreeSet<>(capacity.targets);
        for (int i = 0; i < capacity.adapters; i++) {
            places.add(Optional.empty());
        }
    }

    /** Returns the adapter to load the model of this table with; see {@link Adapter}. One model per table. */
    @SuppressWarnings("exports") // for the packages of this module
    public Adapter updates() {
        if (!targets.isEmpty()) {
            throw new TensorException("adapter table: already used by a model; create another table");
        }
        return new Adapter() {
            @Override
            public Projection apply(String path, Projection base, int in, int out) {
                List<String> found = capacity.targets.stream()
                        .filter(target -> LoraSource.matches(path, target))
                        .toList();
                if (found.isEmpty()) {
                    return base;
                }
                missing.removeAll(found);
                Target target = target(path, 0, false, in, out, 1);
                return new Projection.MultiLoraLinear(base, target.a, target.bs.getFirst(), target.scales);
            }

            @Override
            public List<ExpertStack.ExpertUpdate> expertUpdates(
                    String path, int experts, int in, int out, boolean outer) {
                if (!capacity.targets.contains(LoraConfig.EXPERTS)) {
                    return List.of();
                }
                missing.remove(LoraConfig.EXPERTS);
                Target target = target(path, experts, outer, in, out, outer ? 1 : 2);
                return List.of(new ExpertStack.MultiExpertLora(target.a, target.bs, target.scales));
            }
        };
    }

    private Target target(String path, int experts, boolean outer, int in, int out, int parts) {
        List<Tensor> bs = IntStream.range(0, parts)
                .mapToObj(part -> zeros(experts, out / parts, capacity.rank))
                .toList();
        Tensor scales = scope.allocate(Spec.f32(capacity.adapters));
        scope.device().write(scales, new float[capacity.adapters]);
        Target target = new Target(path, experts, outer, in, out, zeros(experts, capacity.rank, in), bs, scales);
        targets.add(target);
        return target;
    }

    /** Allocates zeros: the values of unused slots must be finite. */
    private Tensor zeros(int experts, int rows, int columns) {
        Shape shape = Shape.of(capacity.adapters, rows, columns);
        Tensor tensor = scope.allocate(
                new Spec(type, experts == 0 ? shape : Shape.of(experts, capacity.adapters, rows, columns)));
        float[] matrix = new float[rows * columns];
        for (long from = 0; from < tensor.shape().size(); from += matrix.length) {
            write(tensor, from, matrix);
        }
        return tensor;
    }

    private void write(Tensor tensor, long from, float... values) {
        ByteBuffer bytes =
                ByteBuffer.allocateDirect(Math.toIntExact(tensor.dtype().bytes(values.length)));
        BlockFormat.of(tensor.dtype()).encode(values, 0, values.length, bytes, 0);
        scope.device().write(tensor.view(from, Shape.of(values.length)), bytes);
    }

    /** Throws if the model has no projection for a target (strict), or for any target. */
    public void requireFound() {
        if (capacity.strict ? !missing.isEmpty() : targets.isEmpty()) {
            throw new ShapeException("adapter table: no projection of this model is called " + missing);
        }
    }

    /** Loads an adapter from its folder into a free slot. */
    public Loaded load(String name, Path folder) {
        if (find(name).isPresent()) {
            throw new AdapterException(AdapterException.Reason.NAME, folder, "an adapter " + name + " is loaded");
        }
        int index = places.indexOf(Optional.<Loaded>empty());
        if (index < 0) {
            throw new AdapterException(
                    AdapterException.Reason.FULL,
                    folder,
                    "all " + capacity.adapters + " slots are in use; unload one of " + names());
        }
        LoraSource.PeftFiles files = LoraAdapter.files(folder);
        try (Scope reading = new Scope(scope.device());
                LoraAdapter adapter = new LoraAdapter(files, reading)) {
            misfit(files, folder, capacity).ifPresent(misfit -> {
                throw misfit;
            });
            Map<String, LoraAdapter.LoraUpdate> updates = read(adapter, folder);
            Loaded loaded = new Loaded(name, index, hash(folder));
            for (Target target : targets) {
                LoraAdapter.LoraUpdate update = updates.get(target.path + target.outer);
                if (update == null) {
                    write(target.scales, index, 0);
                } else {
                    put(target, index, update);
                }
            }
            places.set(index, Optional.of(loaded));
            return loaded;
        }
    }

    /** Returns all updates by path, in newly allocated memory. */
    private Map<String, LoraAdapter.LoraUpdate> read(LoraAdapter adapter, Path folder) {
        Adapter updates = adapter.updates();
        for (Target target : targets) {
            if (target.experts > 0) {
                updates.expertUpdates(target.path, target.experts, target.in, target.out, target.outer);
            } else {
                updates.apply(target.path, new Projection.Linear(target.a), target.in, target.out);
            }
        }
        if (!adapter.unused().isEmpty()) {
            throw notPlannedFor(adapter.unused(), folder, capacity);
        }
        Map<String, LoraAdapter.LoraUpdate> byPath = new HashMap<>();
        for (LoraAdapter.LoraUpdate update : adapter.loraUpdates()) {
            requireFinite(update, folder);
            byPath.put(update.path() + update.outer(), update);
        }
        return byPath;
    }

    /**
     * Throws if a value is not finite: some devices multiply with the whole table, so it would affect the rows of other
     * adapters.
     */
    private void requireFinite(LoraAdapter.LoraUpdate update, Path folder) {
        for (Tensor matrix : List.of(update.a(), update.b())) {
            float[] values = scope.device().floats(matrix);
            for (int i = 0; i < values.length; i++) {
                if (!Float.isFinite(type == DType.F32 ? values[i] : type.widen(type.narrow(values[i])))) {
                    throw new AdapterException(
                            AdapterException.Reason.NUMBERS,
                            folder,
                            update.path() + (matrix == update.a() ? " lora_A" : " lora_B") + ": element " + i + " is "
                                    + values[i] + ", expected a finite value of " + type);
                }
            }
        }
    }

    /** Writes one slot of a target's tables, padded with zeros to the maximum rank. */
    private void put(Target target, int index, LoraAdapter.LoraUpdate update) {
        int matrices = Math.max(1, target.experts);
        int rank = update.rank();
        int parts = target.bs.size();
        int out = target.out / parts;
        float[] a = scope.device().floats(update.a());
        float[] b = scope.device().floats(update.b());
        for (int e = 0; e < matrices; e++) {
            float[] down = new float[capacity.rank * target.in];
            System.arraycopy(a, e * rank * target.in, down, 0, rank * target.in);
            write(target.a, place(e, index, down.length), down);
        }
        for (int part = 0; part < parts; part++) {
            float[] ups = target.experts > 0 ? update.ups(b, part, parts) : b;
            for (int e = 0; e < matrices; e++) {
                float[] up = new float[out * capacity.rank];
                for (int o = 0; o < out; o++) {
                    System.arraycopy(ups, (e * out + o) * rank, up, o * capacity.rank, rank);
                }
                write(target.bs.get(part), place(e, index, up.length), up);
            }
        }
        write(target.scales, index, update.scale());
    }

    private long place(int expert, int index, int matrix) {
        return ((long) expert * capacity.adapters + index) * matrix;
    }

    private static String hash(Path folder) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (String file : List.of(LoraAdapter.CONFIG, LoraAdapter.WEIGHTS)) {
                Path path = folder.resolve(file);
                digest.update((file + " " + Files.size(path) + "\n").getBytes(UTF_8));
                try (OutputStream into = new DigestOutputStream(OutputStream.nullOutputStream(), digest)) {
                    Files.copy(path, into);
                }
            }
            return HexFormat.of().formatHex(digest.digest());
        } catch (IOException failure) {
            throw new ModelException(folder, "cannot be read: " + failure, failure);
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible); // every JDK has SHA-256
        }
    }

    /** Unloads an adapter. Sequences that use it must have ended. */
    public void unload(String name) {
        places.set(loaded(name).index(), Optional.empty());
    }

    /** Returns the adapter of a name. Throws if there is none. */
    public Loaded loaded(String name) {
        return find(name)
                .orElseThrow(() -> new AdapterException(
                        AdapterException.Reason.NAME,
                        Path.of(name),
                        "no such adapter is loaded; there are " + names()));
    }

    private Optional<Loaded> find(String name) {
        return loaded().stream().filter(each -> each.name().equals(name)).findFirst();
    }

    private List<String> names() {
        return loaded().stream().map(Loaded::name).toList();
    }

    /** Returns the loaded adapters by index. */
    public List<Loaded> loaded() {
        return places.stream().flatMap(Optional::stream).toList();
    }

    /** Returns the number of free slots. */
    public int free() {
        return capacity.adapters - loaded().size();
    }
}
