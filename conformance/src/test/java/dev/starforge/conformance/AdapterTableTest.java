package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.kv.Batches.BatchEntry;
import dev.starforge.model.kv.BlockPool;
import dev.starforge.model.kv.PagedKvCache;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.AdapterException;
import dev.starforge.model.lora.AdapterException.Reason;
import dev.starforge.model.lora.AdapterTable;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.model.lora.LoraConfig;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Adapters;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Ops;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * One batch with the base model and several adapters: every sequence has the same bits as alone, loading and unloading adapters does
 * not affect other sequences, and logits match PEFT's.
 */
final class AdapterTableTest {
    private static final int BASE = Batch.BASE;
    private static final List<String> ATTENTION = List.of("q_proj", "k_proj", "v_proj", "o_proj");

    @TempDir
    private Path folder;

    /** A golden model with slots for three adapters of rank up to 8. */
    private static final class Served implements AutoCloseable {
        private final Path golden;
        private final Precision precision;
        private final Device device =
                Selection.choose("cpu").backend().open(new DeviceOptions(0, 2, Path.of("target", "kernels")));
        private final Scope weights = new Scope(device);
        private final AdapterTable table;
        private final Model model;

        Served(String name, Precision precision, List<String> targets) {
            this(name, precision, targets, false);
        }

        Served(String name, Precision precision, List<String> targets, boolean strict) {
            this.precision = precision;
            golden = TinyModel.GOLDEN.resolve(name);
            table = new AdapterTable(new AdapterTable.Capacity(3, 8, targets, strict), weights, precision);
            try (ModelFiles files = ModelFiles.open(golden)) {
                model = files.load(weights, precision, table);
            }
        }

        Path trained() {
            return golden.resolve("adapter");
        }

        float[] packed(List<int[]> sequences, int adapter, Fallback fallback) {
            try (Scope step = new Scope(device)) {
                Ops ops = device.ops(step, precision, fallback);
                return device.floats(model.forward(ops, Batches.packed(model, step, sequences, adapter), KvCache.NONE));
            }
        }

        float[] packed(int adapter, int[] ids) {
            return packed(List.of(ids), adapter, Fallback.FORBIDDEN);
        }

        @Override
        public void close() {
            weights.close();
            device.close();
        }
    }

    private static int[] ids(Served served, int sequence) {
        try (SafetensorsFile expected = SafetensorsFile.open(served.golden.resolve("expected.safetensors"))) {
            int length = Math.toIntExact(expected.tensor("input_ids").shape().last());
            return Arrays.copyOfRange(expected.ints("input_ids"), sequence * length, (sequence + 1) * length);
        }
    }

    /** An adapter with random A and B for a golden model. */
    private Path drawn(Served served, long seed, int rank, boolean dora, List<String> targets) throws IOException {
        return drawn(served, seed, rank, 0.2f, dora, targets);
    }

    private Path drawn(Served served, long seed, int rank, float bound, boolean dora, List<String> targets)
            throws IOException {
        LoraConfig settings = new LoraConfig(rank, 2 * rank, 0, targets, false, false, dora);
        return RandomAdapter.write(
                folder.resolve("drawn-" + seed), served.golden, served.device, seed, bound, settings);
    }

    private static List<String> targets(String name) {
        List<String> targets = new ArrayList<>(LoraConfig.automatic(name.equals("llama3") ? "llama" : name));
        if (name.contains("moe") || name.equals("mixtral")) {
            targets.add(LoraConfig.EXPERTS);
        }
        return targets;
    }

    /** Logits of sequences with one adapter each, computed in two steps that mix prompts and single tokens. */
    private static List<float[]> decoded(Served served, List<int[]> sequences, int[] prompts, int[] adapters) {
        int width = served.model.info().vocabSize();
        List<float[]> logits = new ArrayList<>();
        try (Scope session = new Scope(served.device)) {
            PagedKvCache cache = new PagedKvCache(served.model.info(), 16, served.precision.kv(), session);
            Ops ops = served.device.ops(session, served.precision, Fallback.FORBIDDEN);
            List<BatchEntry> first = new ArrayList<>();
            List<BatchEntry> second = new ArrayList<>();
            for (int s = 0; s < adapters.length; s++) {
                BlockPool.BlockTable place = cache.openSequence();
                int[] all = sequences.get(s);
                first.add(new BatchEntry(place, Arrays.copyOf(all, prompts[s]), adapters[s]));
                second.add(new BatchEntry(place, Arrays.copyOfRange(all, prompts[s], all.length), adapters[s]));
            }
            for (List<BatchEntry> step : List.of(first, second)) {
                Batch batch = Batches.cached(served.model, session, step);
                float[] rows = served.device.floats(served.model.forward(ops, batch, cache));
                for (int s = 0; s < adapters.length; s++) {
                    logits.add(Arrays.copyOfRange(rows, s * width, (s + 1) * width));
                }
            }
        }
        return logits;
    }

    @ParameterizedTest
    @CsvSource({"starcoder2, F32", "llama3, F32", "qwen3_moe, F32", "qwen2_moe, F32", "starcoder2, BF16", "mixtral, F16"
    })
    void mixedBatchMatchesSeparateSequences(String name, DType type) throws IOException {
        Precision precision = type == DType.F32 ? Precision.FLOAT32 : Precision.of(type);
        try (Served served = new Served(name, precision, targets(name))) {
            int trained = served.table.load("trained", served.trained()).index();
            int drawn = served.table
                    .load("drawn", drawn(served, 7, 5, false, targets(name)))
                    .index();
            int[] a = ids(served, 0);
            int[] b = ids(served, 1);
            List<int[]> sequences = List.of(
                    a, Arrays.copyOf(b, 10), b, Arrays.copyOf(a, 19), Arrays.copyOf(a, 7), Arrays.copyOf(b, 18));
            int[] prompts = {23, 1, 5, 18, 6, 17}; // the second step: 1, 9, 19, 1, 1 and 1 tokens
            int[] adapters = {trained, BASE, drawn, BASE, drawn, trained};
            List<float[]> together = decoded(served, sequences, prompts, adapters);
            for (int s = 0; s < adapters.length; s++) {
                List<float[]> alone =
                        decoded(served, List.of(sequences.get(s)), new int[] {prompts[s]}, new int[] {adapters[s]});
                assertThat(together.get(s)).as("prompt of sequence " + s).isEqualTo(alone.get(0));
                assertThat(together.get(adapters.length + s)).as("rest of " + s).isEqualTo(alone.get(1));
            }
            assertThat(together.get(0))
                    .isNotEqualTo(decoded(served, List.of(a), new int[] {23}, new int[] {BASE})
                            .getFirst());
        }
    }

    /** A row without an adapter has the same bits as in a model that was loaded without a table. */
    @ParameterizedTest
    @CsvSource({"starcoder2", "llama3", "qwen3_moe"})
    void baseRowsMatchModelWithoutAdapterTable(String name) throws IOException {
        try (Served served = new Served(name, Precision.FLOAT32, targets(name));
                Scope weights = new Scope(served.device);
                Scope step = new Scope(served.device);
                ModelFiles files = ModelFiles.open(served.golden)) {
            served.table.load("drawn", drawn(served, 3, 8, false, targets(name)));
            Model plain = files.load(weights, Precision.FLOAT32);
            Ops ops = served.device.ops(step, Precision.FLOAT32, Fallback.FORBIDDEN);
            int[] ids = ids(served, 0);
            assertThat(served.packed(BASE, ids))
                    .isEqualTo(served.device.floats(
                            plain.forward(ops, Batches.packed(plain, step, List.of(ids)), KvCache.NONE)));
        }
    }

    /** As in {@code verify}: rotary frequencies in the type that the golden file was computed with (docs/adr/0003). */
    private static Precision rotary(String name) {
        JsonConfig facts = JsonConfig.read(TinyModel.GOLDEN.resolve(name).resolve("expected.json"));
        return switch (facts.string("dtype")) {
            case "torch.bfloat16" -> Precision.FLOAT32.withRotary(DType.BF16);
            case "torch.float16" -> Precision.FLOAT32.withRotary(DType.F16);
            default -> Precision.FLOAT32;
        };
    }

    /** Within the tolerance of {@code verify} on the host: 1e-4 of the range of the logits. */
    @ParameterizedTest
    @CsvSource({
        "starcoder2, starcoder2",
        "llama3, llama",
        "mistral, mistral",
        "mixtral, mixtral",
        "phi, phi",
        "phi3, phi3",
        "qwen2, qwen2",
        "qwen2_moe, qwen2_moe",
        "qwen3, qwen3",
        "qwen3_moe, qwen3_moe"
    })
    void matchesPeftLogits(String name, String architecture) {
        try (Served served = new Served(name, rotary(name), LoraConfig.automatic(architecture));
                SafetensorsFile expected = SafetensorsFile.open(served.golden.resolve("expected.safetensors"))) {
            int adapter = served.table.load("trained", served.trained()).index();
            float[] wanted = expected.floats("adapter_logits");
            float[] ours = served.packed(List.of(ids(served, 0), ids(served, 1)), adapter, Fallback.FORBIDDEN);
            assertThat(largest(ours, wanted)).isLessThan(1e-4 * range(wanted));
            assertThat(largest(ours, expected.floats("logits"))).isGreaterThan(1e-3 * range(wanted));
        }
    }

    /** Experts included: of drawn adapters what a model gives that was loaded with it alone, by other products. */
    @ParameterizedTest
    @CsvSource({"qwen3_moe, 1", "qwen3_moe, 8", "mixtral, 3", "llama3, 2"})
    void matchesModelLoadedWithAdapter(String name, int rank) throws IOException {
        try (Served served = new Served(name, Precision.FLOAT32, targets(name));
                Scope weights = new Scope(served.device);
                Scope step = new Scope(served.device);
                ModelFiles files = ModelFiles.open(served.golden)) {
            served.table.load("trained", served.trained());
            Path path = drawn(served, rank, rank, false, targets(name));
            int adapter = served.table.load("drawn", path).index();
            int[] ids = ids(served, 0);
            try (LoraAdapter single = LoraAdapter.open(path, weights)) {
                Model model = files.load(weights, Precision.FLOAT32, single);
                Ops ops = served.device.ops(step, Precision.FLOAT32, Fallback.FORBIDDEN);
                float[] wanted = served.device.floats(
                        model.forward(ops, Batches.packed(model, step, List.of(ids)), KvCache.NONE));
                assertThat(ModelInvariantsTest.distance(served.packed(adapter, ids), wanted))
                        .isLessThan(1e-5);
                assertThat(ModelInvariantsTest.distance(served.packed(BASE, ids), wanted))
                        .isGreaterThan(1e-2);
            }
        }
    }

    @Test
    void expansionsMatchKernels() throws IOException {
        try (Served served = new Served("qwen3_moe", Precision.FLOAT32, targets("qwen3_moe"))) {
            int adapter = served.table
                    .load("drawn", drawn(served, 1, 4, false, targets("qwen3_moe")))
                    .index();
            List<int[]> ids = List.of(ids(served, 0));
            float[] fused = served.packed(ids, adapter, Fallback.FORBIDDEN);
            for (Class<? extends Op> off : List.of(Adapters.Lora.class, Adapters.ExpertLora.class)) {
                List<String> log = new ArrayList<>();
                float[] expanded = served.packed(ids, adapter, new Fallback(true, Set.of(off), log::add));
                assertThat(ModelInvariantsTest.distance(expanded, fused)).isLessThan(1e-5);
                assertThat(log).hasSize(1);
            }
        }
    }

    @Test
    void loadsAndUnloadsAdapters() throws IOException {
        try (Served served = new Served("llama3", Precision.FLOAT32, targets("llama3"))) {
            AdapterTable table = served.table;
            Path other = drawn(served, 11, 8, false, targets("llama3"));
            Path third = drawn(served, 12, 2, false, ATTENTION);
            int[] ids = ids(served, 0);
            AdapterTable.Loaded trained = table.load("trained", served.trained());
            AdapterTable.Loaded drawn = table.load("other", other);
            assertThat(table.loaded()).containsExactly(trained, drawn);
            assertThat(table.free()).isEqualTo(1);
            float[] ofTrained = served.packed(trained.index(), ids);
            float[] ofOther = served.packed(drawn.index(), ids);

            table.unload("other");
            assertThat(table.free()).isEqualTo(2);
            AdapterTable.Loaded small = table.load("third", third);
            assertThat(small.index()).isEqualTo(drawn.index());
            float[] ofThird = served.packed(small.index(), ids);
            AdapterTable.Loaded again = table.load("other", other);
            assertThat(again.index()).isNotEqualTo(drawn.index());

            assertThat(served.packed(trained.index(), ids)).isEqualTo(ofTrained);
            assertThat(served.packed(again.index(), ids)).isEqualTo(ofOther);
            table.unload("trained");
            assertThat(served.packed(table.load("third, too", third).index(), ids))
                    .isEqualTo(ofThird);
            assertThat(ofThird).isNotEqualTo(ofOther).isNotEqualTo(ofTrained);
        }
    }

    /** As a server decodes: one step for all batches, whoever has which adapter, and adapters that came after it was recorded. */
    @Test
    void capturedStepRereadsIndexAndTable() throws IOException {
        try (Served served = new Served("llama3", Precision.FLOAT32, targets("llama3"));
                Scope session = new Scope(served.device);
                Scope step = new Scope(served.device)) {
            Device device = served.device;
            Model model = served.model;
            int trained = served.table.load("trained", served.trained()).index();
            int late = trained + 1;
            int[][] adapters = {
                {BASE, trained, BASE},
                {trained, BASE, BASE},
                {trained, trained, BASE},
                {late, BASE, trained},
                {late, late, BASE}
            };
            PagedKvCache cache = new PagedKvCache(model.info(), 6, DType.F32, session);
            PagedKvCache twin = new PagedKvCache(model.info(), 6, DType.F32, session);
            List<BlockPool.BlockTable> places =
                    List.of(cache.openSequence(), cache.openSequence(), cache.openSequence());
            List<BlockPool.BlockTable> twins = List.of(twin.openSequence(), twin.openSequence(), twin.openSequence());
            Tensor logits = session.allocate(Spec.f32(3, model.info().vocabSize()));
            Tensor rows = session.allocate(Spec.i32(3));
            device.write(rows, 0, 1, 2);
            Batch batch = Batches.decode(session, 3, 2, model.ropeRegime(0));
            Ops ops = device.ops(step, Precision.FLOAT32, Fallback.FORBIDDEN);
            for (int token = 0; token < adapters.length; token++) {
                if (token == 3) {
                    assertThat(served.table
                                    .load("late", drawn(served, 41, 6, false, ATTENTION))
                                    .index())
                            .isEqualTo(late);
                }
                Batches.refill(device, batch, singles(places, token, adapters[token]));
                device.replay(
                        this,
                        () -> step.within(() -> {
                            ops.store(logits, rows, model.forward(ops, batch, cache));
                            return logits;
                        }));
                Batch eager = Batches.cached(model, session, singles(twins, token, adapters[token]));
                Ops once = device.ops(session, Precision.FLOAT32, Fallback.FORBIDDEN);
                assertThat(device.floats(logits))
                        .as("token " + token)
                        .isEqualTo(device.floats(model.forward(once, eager, twin)));
            }
            device.forget(this);
        }
    }

    private static List<BatchEntry> singles(List<BlockPool.BlockTable> places, int token, int[] adapters) {
        return IntStream.range(0, adapters.length)
                .mapToObj(s -> new BatchEntry(places.get(s), new int[] {3 + 5 * token + s}, adapters[s]))
                .toList();
    }

    @Test
    void hashDependsOnContent() throws IOException {
        try (Served served = new Served("llama3", Precision.FLOAT32, targets("llama3"))) {
            Path one = drawn(served, 21, 2, false, ATTENTION);
            Path copy = Files.createDirectories(folder.resolve("copy"));
            for (String file : List.of(LoraAdapter.CONFIG, LoraAdapter.WEIGHTS)) {
                Files.copy(one.resolve(file), copy.resolve(file));
            }
            String hash = served.table.load("one", one).hash();
            assertThat(hash).hasSize(64);
            assertThat(served.table.load("copy", copy).hash()).isEqualTo(hash);
            served.table.unload("copy");
            edited(copy, "\"lora_alpha\" : 4.0", "\"lora_alpha\" : 5.0");
            assertThat(served.table.load("copy", copy).hash()).isNotEqualTo(hash);
        }
    }

    /** The same folder with a different config. */
    private static Path edited(Path adapter, String from, String to) throws IOException {
        Path config = adapter.resolve(LoraAdapter.CONFIG);
        String text = Files.readString(config);
        assertThat(text).contains(from);
        Files.writeString(config, text.replaceFirst(Pattern.quote(from), Matcher.quoteReplacement(to)));
        return adapter;
    }

    private static void refused(Served served, Reason reason, Path path, String... message) {
        int free = served.table.free();
        assertThatThrownBy(() -> served.table.load("refused", path))
                .isInstanceOfSatisfying(
                        AdapterException.class,
                        refusal -> assertThat(refusal.reason()).isEqualTo(reason))
                .hasMessageContainingAll(message);
        assertThat(served.table.free()).isEqualTo(free);
    }

    @Test
    void rejectsAdaptersThatDoNotFitAndReleasesMemory() throws IOException {
        try (Served served = new Served("llama3", Precision.FLOAT32, ATTENTION)) {
            Path plain = drawn(served, 31, 8, false, ATTENTION);
            int index = served.table.load("plain", plain).index();
            int[] ids = ids(served, 0);
            float[] before = served.packed(index, ids);
            refused(
                    served,
                    Reason.RANK,
                    drawn(served, 32, 9, false, ATTENTION),
                    "k_proj has rank 9, expected at most 8");
            refused(served, Reason.TARGETS, served.trained(), "down_proj", ATTENTION.toString());
            refused(served, Reason.VARIANT, drawn(served, 33, 2, true, ATTENTION), "use_dora", "DoRA");
            Path infinite = drawn(served, 36, 2, Float.POSITIVE_INFINITY, false, ATTENTION);
            refused(served, Reason.NUMBERS, infinite, "q_proj lora_A: element 0 is ", "Infinity");
            Path narrow = edited(drawn(served, 34, 2, false, ATTENTION), "\"r\" : 2", "\"r\" : 3");
            assertThatThrownBy(() -> served.table.load("narrow", narrow))
                    .isInstanceOf(ModelException.class)
                    .hasMessageContainingAll("q_proj.lora_A.weight", "[3, 64]", "the file has [2, 64]");
            Path variant = edited(drawn(served, 35, 2, false, ATTENTION), "{", "{\"use_qalora\": true,");
            assertThatThrownBy(() -> served.table.load("variant", variant))
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining("use_qalora");
            assertThatThrownBy(() -> served.table.load("plain", plain))
                    .isInstanceOfSatisfying(
                            AdapterException.class,
                            refusal -> assertThat(refusal.reason()).isEqualTo(Reason.NAME));
            assertThatThrownBy(() -> served.table.unload("absent"))
                    .isInstanceOf(AdapterException.class)
                    .hasMessageContaining("[plain]");
            served.table.load("second", plain);
            served.table.load("third", plain);
            refused(served, Reason.FULL, plain, "all 3 slots", "[plain, second, third]");
            assertThat(served.packed(index, ids)).isEqualTo(before);
        }
    }

    @Test
    void planListsProjectionsWithPerTokenAdapters() {
        for (String target : List.of("lm_head", "kv_b_proj")) {
            assertThatThrownBy(() -> new AdapterTable.Capacity(2, 4, List.of("q_proj", target), true))
                    .isInstanceOf(ShapeException.class)
                    .hasMessageContaining(target);
        }
        assertThatThrownBy(() -> new Served("llama3", Precision.FLOAT32, List.of("q_proj", "c_fc"), true))
                .isInstanceOf(ShapeException.class)
                .hasMessageContaining("[c_fc]");
        assertThatThrownBy(() -> new Served("llama3", Precision.FLOAT32, List.of("c_fc")))
                .isInstanceOf(ShapeException.class)
                .hasMessageContaining("[c_fc]");
    }

    /** Blocks that run without a batch have no adapter indices and throw. */
    @Test
    void rejectsOpsWithoutBatch() {
        try (Served served = new Served("llama3", Precision.FLOAT32, ATTENTION);
                Scope step = new Scope(served.device)) {
            Ops ops = served.device.ops(step, Precision.FLOAT32, Fallback.FORBIDDEN);
            Batch batch = Batches.packed(served.model, step, List.of(ids(served, 0)));
            assertThatThrownBy(() -> served.model
                            .blocks()
                            .getFirst()
                            .forward(ops, served.model.embed(ops, batch), batch, KvCache.NONE))
                    .isInstanceOf(TensorException.class)
                    .hasMessageContaining("Model.forward");
        }
    }

    private static double largest(float[] a, float[] b) {
        double largest = 0;
        for (int i = 0; i < b.length; i++) {
            largest = Math.max(largest, Math.abs(a[i] - b[i]));
        }
        return largest;
    }

    private static double range(float[] values) {
        double low = Double.POSITIVE_INFINITY;
        double high = Double.NEGATIVE_INFINITY;
        for (float value : values) {
            low = Math.min(low, value);
            high = Math.max(high, value);
        }
        return high - low;
    }
}
